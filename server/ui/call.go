package ui

import (
	"context"
	"strconv"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// position is the position of this peer's state when it answered.
type position struct {
	Index   string
	Leader  string // empty if there is no known leader
	Contact int64  // milliseconds since the last contact with the leader; -1: never
	known   bool
}

// conn makes calls in this process and records the position of the answers. Pages open no streams.
type conn struct {
	grpc.ClientConnInterface

	reads bool   // read this peer's own state
	least string // minimum index of reads, so that users see their own writes

	mu sync.Mutex
	at position
}

// Invoke implements grpc.ClientConnInterface.
func (c *conn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	if c.reads {
		ctx = metadata.AppendToOutgoingContext(ctx, "holdfast-consistency", "stale")
		if c.least != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "holdfast-min-index", c.least)
		}
	}
	var h metadata.MD
	err := c.ClientConnInterface.Invoke(ctx, method, args, reply, append(opts, grpc.Header(&h))...)
	c.note(h)
	return err
}

func (c *conn) note(h metadata.MD) {
	if len(h.Get("holdfast-index")) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = position{known: true, Index: h.Get("holdfast-index")[0], Contact: -1}
	if l := h.Get("holdfast-leader"); len(l) > 0 {
		c.at.Leader = l[0]
	}
	if ms := h.Get("holdfast-last-contact-ms"); len(ms) > 0 {
		if n, err := strconv.ParseInt(ms[0], 10, 64); err == nil {
			c.at.Contact = n
		}
	}
}

func (c *conn) position() position {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

// clients are the clients of all services that pages use.
type clients struct {
	conn     *conn
	machines holdfastv1.MachineServiceClient
	runs     holdfastv1.RunServiceClient
	plans    holdfastv1.PlanServiceClient
	pools    holdfastv1.PoolServiceClient
	cluster  holdfastv1.ClusterServiceClient
	access   holdfastv1.AccessServiceClient
	nodes    holdfastv1.NodeServiceClient
	operator holdfastv1.OperatorServiceClient
	waves    holdfastv1.WaveServiceClient
}

func newClients(c *conn) *clients {
	return &clients{
		conn:     c,
		machines: holdfastv1.NewMachineServiceClient(c),
		runs:     holdfastv1.NewRunServiceClient(c),
		plans:    holdfastv1.NewPlanServiceClient(c),
		pools:    holdfastv1.NewPoolServiceClient(c),
		cluster:  holdfastv1.NewClusterServiceClient(c),
		access:   holdfastv1.NewAccessServiceClient(c),
		nodes:    holdfastv1.NewNodeServiceClient(c),
		operator: holdfastv1.NewOperatorServiceClient(c),
		waves:    holdfastv1.NewWaveServiceClient(c),
	}
}

// pageSize is the maximum page size of lists.
const pageSize = 1000
