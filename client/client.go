package client

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/holdfast-metal/holdfast/client/internal/hedge"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Client talks to one cluster. It is safe for concurrent use.
type Client struct {
	peers *peers
}

// Dial makes a client. It connects when the first call is made, so a cluster that is down is an
// error of that call and not of Dial.
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
		// A dead address must cost little: another one is tried next.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.5, MaxDelay: time.Second},
			MinConnectTimeout: 2 * time.Second,
		}),
		// Timeout also becomes TCP_USER_TIMEOUT: a host that vanished is noticed after 5 s while
		// data is in flight. More than one ping in 10 s is not to be had of grpc-go (it raises Time
		// to that): what waits for a quiet stream, or where a process is stopped and its kernel
		// goes on, has a lifeline.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}),
		// A page of 1000 runs with their attempts exceeds gRPC's 4 MiB.
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64 << 20)),
	}
	if cfg.Token != "" {
		opts = append(opts, grpc.WithPerRPCCredentials(bearer{token: cfg.Token, tls: cfg.TLS != nil}))
	}
	return append(opts, cfg.DialOptions...)
}

// Close closes every connection. Calls that are under way end with CANCELED.
func (c *Client) Close() error { return c.peers.close() }

// Machines is the inventory (bare-metal API §MachineService).
func (c *Client) Machines() holdfastv1.MachineServiceClient {
	return holdfastv1.NewMachineServiceClient(c.peers)
}

// Plans is the recipes (bare-metal API §PlanService).
func (c *Client) Plans() holdfastv1.PlanServiceClient {
	return holdfastv1.NewPlanServiceClient(c.peers)
}

// Runs starts, reads and cancels runs (bare-metal API §RunService). Its streams end with the peer
// that serves them: use WatchRuns and FollowLogs, which go on with another.
func (c *Client) Runs() holdfastv1.RunServiceClient {
	return holdfastv1.NewRunServiceClient(c.peers)
}

// Cluster reports how the control plane itself is doing.
func (c *Client) Cluster() holdfastv1.ClusterServiceClient {
	return holdfastv1.NewClusterServiceClient(c.peers)
}

// Operator keeps the control plane itself: snapshots, the membership, who leads. For admins.
func (c *Client) Operator() holdfastv1.OperatorServiceClient {
	return holdfastv1.NewOperatorServiceClient(c.peers)
}

// Conn is for services that the client has no method for: the same retries apply.
func (c *Client) Conn() grpc.ClientConnInterface { return c.peers }

// Index is the highest Raft index that an answer to this client was made at. Stale reads of this
// client never show a state before it.
func (c *Client) Index() uint64 { return c.peers.seen.Load() }
