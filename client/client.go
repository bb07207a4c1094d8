package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/holdfast-metal/holdfast/client/internal/hedge"
)

// Client makes calls to one cluster. It is safe for concurrent use.
type Client struct {
	peers *peers
}

// Dial returns a client. It connects on the first call, so if the cluster is down that call
// fails, not Dial.
func Dial(cfg Config) (*Client, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	p := &peers{cfg: cfg, tryTimeout: defaultTryTimeout, order: hedge.NewOrder(len(cfg.Addrs), 0)}
	for i, addr := range cfg.Addrs {
		conn, err := grpc.NewClient("passthrough:///"+addr, dialOptions(cfg)...)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("dial %s: %w", addr, err), p.close())
		}
		p.all = append(p.all, &peer{number: i, addr: addr, conn: conn})
	}
	return &Client{peers: p}, nil
}

func dialOptions(cfg Config) []grpc.DialOption {
	creds := insecure.NewCredentials()
	if cfg.TLS != nil {
		creds = credentials.NewTLS(cfg.TLS)
	}
	opts := []grpc.DialOption{
		grpc.WithTransportCredentials(creds),
		grpc.WithStatsHandler(tryHandler{}),
		grpc.WithDisableServiceConfig(),
		// Give up on a dead address early, because another one is tried next.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{
				BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.5, MaxDelay: time.Second,
			},
			MinConnectTimeout: 2 * time.Second,
		}),
		// Timeout also sets TCP_USER_TIMEOUT: a vanished host is noticed after 5 s while
		// data is in flight. grpc-go raises Time to 10 s, so it does not ping more often
		// than that. The watchdog covers quiet streams and stopped processes whose kernel
		// still answers.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}),
		// A page of 1000 runs with their attempts exceeds gRPC's 4 MiB.
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64 << 20)),
	}
	if tokens := cfg.Tokens; tokens != nil || cfg.Token != "" {
		if tokens == nil {
			tokens = func(context.Context) (string, error) { return cfg.Token, nil }
		}
		opts = append(opts, grpc.WithPerRPCCredentials(bearer{tokens: tokens, tls: cfg.TLS != nil}))
	}
	return append(opts, cfg.DialOptions...)
}

// Close closes every connection. Calls in progress end with CANCELED.
func (c *Client) Close() error { return c.peers.close() }

// Conn returns a connection for services that Client has no method for. The same retries
// apply.
func (c *Client) Conn() grpc.ClientConnInterface { return c.peers }

// Index returns the highest Raft index of any response to this client. Its stale reads
// never show an older state.
func (c *Client) Index() uint64 { return c.peers.seen.Load() }
