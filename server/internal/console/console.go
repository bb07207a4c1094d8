package console

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/internal/edge"
	"github.com/holdfast-metal/holdfast/server/internal/request"
	"github.com/holdfast-metal/holdfast/server/internal/scope"
)

// Consoles is the set of consoles that are open on this peer while it leads
// (*executor.Executor).
type Consoles interface {
	// Attach connects a principal to the console of a run, once it is open.
	Attach(ctx context.Context, run, principal string, write bool) (io.ReadWriteCloser, error)
	// Leave reports that a caller has closed the console and will not return.
	Leave(run string)
}

// Peers connects to the other peers (*cluster.Peer).
type Peers interface {
	PeerConn(id string) (grpc.ClientConnInterface, error)
}

// The limits of a console stream.
const (
	maxTyped       = 4096             // maximum input in one message, in bytes
	attachTimeout  = 45 * time.Second // maximum time for a console to open
	firstMessage   = 10 * time.Second // maximum time to wait for the first message
	consoleMessage = 16 << 10         // maximum output in one message, in bytes
)

// Config configures a Service. Without Consoles the leader can attach no console, and without
// Peers the other peers cannot.
type Config struct {
	PeerID   string
	Leader   func() (id string, self, ok bool)
	Consoles Consoles
	Peers    Peers
	// Record records the output of console sessions, at most 1 MiB of each.
	Record bool
	// Keep is how long the record of a session is kept after its end; default 90 days.
	Keep time.Duration
}

func (c *Config) keep() time.Duration { return cmp.Or(c.Keep, 90*24*time.Hour) }

// Service implements ConsoleService.
type Service struct {
	holdfastv1.UnimplementedConsoleServiceServer
	*edge.Peer
	cfg Config
}

// New returns the service of a peer.
func New(peer *edge.Peer, cfg Config) *Service { return &Service{Peer: peer, cfg: cfg} }

// consoleStream is a stream of Attach.
type consoleStream = grpc.BidiStreamingServer[holdfastv1.AttachRequest, holdfastv1.AttachResponse]

// Attach attaches to the console that a run keeps open.
func (s *Service) Attach(stream consoleStream) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	first, err := firstOf(ctx, stream)
	if err != nil {
		return err
	}
	v, err := request.View(ctx, s.Cluster.View, "run_id", first.GetRunId())
	if err != nil {
		return err
	}
	if _, ok := scope.Run(ctx, v, first.GetRunId()); !ok {
		return request.NotFound("RUN_NOT_FOUND", "run", first.GetRunId())
	}
	id, self, ok := s.cfg.Leader()
	switch {
	case ok && self && s.cfg.Consoles != nil:
		return s.console(ctx, stream, first)
	case ok && !self && s.cfg.Peers != nil && !forwarded(ctx):
		return s.forward(ctx, stream, first, id)
	}
	return noLeaderFor("a console")
}

// firstOf returns the first message of a stream, or an error if it does not arrive in
// time.
func firstOf(ctx context.Context, stream consoleStream) (*holdfastv1.AttachRequest, error) {
	type got struct {
		r   *holdfastv1.AttachRequest
		err error
	}
	first := make(chan got, 1)
	go func() {
		r, err := stream.Recv() // returns at the latest when the stream ends
		first <- got{r, err}
	}()
	t := time.NewTimer(firstMessage)
	defer t.Stop()
	select {
	case g := <-first:
		return g.r, g.err
	case <-t.C:
		return nil, request.Invalid("run_id",
			fmt.Sprintf("was not sent within %s: send it in the first message", firstMessage))
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
