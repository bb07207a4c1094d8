package contest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/holdfast-metal/holdfast/bench/load"
)

// MaxConns is the maximum number of connections that the clients of a contender share.
const MaxConns = 16

// ErrEnough ends a slice early because there is nothing left to do.
var ErrEnough = errors.New("nothing is left to do")

// Calls are clients of a gRPC server that call without a pause.
type Calls struct {
	clients int
	conns   []*grpc.ClientConn
	call    func(ctx context.Context, conn grpc.ClientConnInterface) error
}

// NewCalls connects clients to one or more servers.
func NewCalls(
	clients int, creds credentials.TransportCredentials, addrs []string, call func(context.Context,
		grpc.ClientConnInterface) error,
) (*Calls, error) {
	c := &Calls{clients: clients, call: call}
	for i := range min(clients, MaxConns) {
		conn, err := grpc.NewClient(addrs[i%len(addrs)], grpc.WithTransportCredentials(creds))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("connect to %s: %w", addrs[i%len(addrs)], err), c.Close())
		}
		c.conns = append(c.conns, conn)
	}
	return c, nil
}

// Close ends the connections.
func (c *Calls) Close() error {
	var errs []error
	for _, conn := range c.conns {
		errs = append(errs, conn.Close())
	}
	return errors.Join(errs...)
}

// Run makes the clients call for a time and returns the latencies. A failed call ends it, because
// figures with errors mean nothing.
func (c *Calls) Run(ctx context.Context, d time.Duration) ([]time.Duration, error) {
	return Press(ctx, c.clients, d, func(ctx context.Context,
		i int) error {
		return c.timed(ctx, c.conns[i%len(c.conns)])
	})
}

// Press makes each client call do without a pause for a time. The first error ends all clients,
// except ErrEnough, which ends one.
func Press(
	ctx context.Context, clients int, d time.Duration, do func(ctx context.Context, client int) error,
) ([]time.Duration, error) {
	all := make([][]time.Duration, clients)
	g, ctx := errgroup.WithContext(ctx)
	end := time.Now().Add(d)
	for i := range all {
		g.Go(func() error {
			for began := time.Now(); began.Before(end); {
				err := do(ctx, i)
				if errors.Is(err, ErrEnough) {
					return nil
				}
				if err != nil {
					return err
				}
				now := time.Now()
				all[i] = append(all[i], now.Sub(began))
				began = now
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return slices.Concat(all...), nil
}

// Once makes one call.
func (c *Calls) Once(ctx context.Context) error { return c.timed(ctx, c.conns[0]) }

func (c *Calls) timed(ctx context.Context, conn grpc.ClientConnInterface) error {
	ctx, stop := context.WithTimeout(ctx, load.CallTimeout)
	defer stop()
	return c.call(ctx, conn)
}
