package outage

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/holdfast-metal/holdfast/bench/contest"
	"github.com/holdfast-metal/holdfast/internal/wait"
)

// Noise is load that is not measured: clients that write and clients that read at all members in
// turn, and ignore errors.
type Noise struct {
	Creds            credentials.TransportCredentials
	Addrs            []string
	Writers, Readers int
	Write, Read      func(context.Context, grpc.ClientConnInterface) error
}

// During makes the load while do runs.
func (n Noise) During(ctx context.Context, do func() error) (err error) {
	anyway := func(call func(context.Context, grpc.ClientConnInterface) error) func(context.Context,
		grpc.ClientConnInterface) error {
		return func(ctx context.Context, conn grpc.ClientConnInterface) error {
			if ctx.Err() != nil {
				return contest.ErrEnough
			}
			ctx, stop := context.WithTimeout(ctx, callTimeout)
			defer stop()
			if call(ctx, conn) != nil {
				_ = wait.Sleep(ctx, callTimeout/50) // after the end of ctx the next call fails, too
			}
			return nil
		}
	}
	w, err := contest.NewCalls(n.Writers, n.Creds, n.Addrs, anyway(n.Write))
	if err != nil {
		return err
	}
	r, err := contest.NewCalls(n.Readers, n.Creds, n.Addrs, anyway(n.Read))
	if err != nil {
		return errors.Join(err, w.Close())
	}
	running, stop := context.WithCancel(ctx)
	var g errgroup.Group
	for _, c := range []*contest.Calls{w, r} {
		g.Go(func() error {
			_, err := c.Run(running, outageTimeout)
			return err
		})
	}
	err = do()
	stop()
	return errors.Join(err, g.Wait(), w.Close(), r.Close())
}
