package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/internal/edge"
	"github.com/holdfast-metal/holdfast/server/internal/request"
	"github.com/holdfast-metal/holdfast/server/internal/scope"
)

// Consoles is the set of consoles that are open on this peer while it leads
// (*executor.Executor).
type Consoles interface {
	// Attach connects to the console of a run, once it is open.
	Attach(ctx context.Context, run string, write bool) (io.ReadWriteCloser, error)
	// Leave reports that a caller has closed the console and will not return.
	Leave(run string)
}

// Peers connects to the other peers (*cluster.Node).
type Peers interface {
	PeerConn(id string) (grpc.ClientConnInterface, error)
}

// The limits of a console stream.
const (
	maxTyped       = 4096             // maximum input in one message, in bytes
	attachTimeout  = 45 * time.Second // maximum time for a console to open
	firstMessage   = 10 * time.Second // maximum time to wait for the first message
	headerByPeer   = "holdfast-forwarded-by"
	consoleMessage = 16 << 10 // maximum output in one message, in bytes
)

// Config configures a Service. Without Consoles the leader can attach no console, and without
// Peers the other peers cannot.
type Config struct {
	PeerID   string
	Leader   func() (id string, self, ok bool)
	Consoles Consoles
	Peers    Peers
}

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
	if err := request.Required("run_id", first.GetRunId()); err != nil {
		return err
	}
	v, err := s.Node.View(ctx)
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
		return s.relay(ctx, stream, first, id)
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

// console serves a stream on the peer that has the console.
func (s *Service) console(
	ctx context.Context, stream consoleStream, first *holdfastv1.AttachRequest,
) error {
	run := first.GetRunId()
	opening, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	t := time.AfterFunc(attachTimeout, func() { stop(context.DeadlineExceeded) })
	c, err := s.cfg.Consoles.Attach(opening, run, !first.GetReadOnly())
	if !t.Stop() && err == nil { // it opened after the timeout
		_ = c.Close()
		err = context.DeadlineExceeded
	}
	if errors.Is(context.Cause(opening), context.DeadlineExceeded) {
		err = fmt.Errorf("wait %s for the console of run %s to open: %w", attachTimeout, run, context.DeadlineExceeded)
	}
	if err != nil {
		return err
	}
	leaves := false
	defer func() {
		_ = c.Close()
		if leaves {
			s.cfg.Consoles.Leave(run)
		}
	}()
	id, _, _ := s.cfg.Leader()
	if err := stream.Send(&holdfastv1.AttachResponse{Attached: true, Peer: id}); err != nil {
		return err
	}
	shown := make(chan error, 1)
	go func() { shown <- showConsole(stream, c) }()
	typed := make(chan error, 1)
	go func() { typed <- s.typeConsole(ctx, stream, c, !first.GetReadOnly(), first) }()
	select {
	case err = <-typed: // the caller has left or disconnected
		leaves = errors.Is(err, errLeft)
		stop(nil)
		_ = c.Close()
		<-shown //nolint:errcheck // the cause is already known
		if leaves {
			err = nil
		}
		return err
	case err = <-shown:
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return err // which also ends typeConsole
	case <-s.Draining:
		stop(edge.ErrDraining)
		_ = c.Close()
		<-shown //nolint:errcheck // the cause is already known
		return edge.ErrDraining
	}
}

// errLeft ends a stream after its caller has left the console.
var errLeft = errors.New("left")

// showConsole sends the output of the console.
func showConsole(stream consoleStream, c io.Reader) error {
	buf := make([]byte, consoleMessage)
	for {
		n, err := c.Read(buf)
		if err != nil {
			return err
		}
		if err := stream.Send(&holdfastv1.AttachResponse{Data: append([]byte(nil), buf[:n]...)}); err != nil {
			return err
		}
	}
}

// typeConsole writes the caller's input to the console, starting with that of the first
// message.
func (s *Service) typeConsole(
	ctx context.Context, stream consoleStream, c io.Writer, write bool, r *holdfastv1.AttachRequest,
) error {
	for {
		switch {
		case r.GetLeave():
			return errLeft
		case len(r.GetData()) > maxTyped:
			return request.Invalid("data", fmt.Sprintf("has %d bytes: at most %d are allowed", len(r.GetData()), maxTyped))
		case len(r.GetData()) > 0 && !write:
			return &fsm.Error{
				Code: fsm.FailedPrecondition, Reason: "CONSOLE_READ_ONLY",
				Message: "the console is read-only: attach without read_only to type",
			}
		case len(r.GetData()) > 0:
			if _, err := c.Write(r.GetData()); err != nil {
				return err
			}
		}
		var err error
		if r, err = stream.Recv(); err != nil {
			if errors.Is(err, io.EOF) {
				<-ctx.Done() // the caller has no more input, but still reads the output
				return ctx.Err()
			}
			return err
		}
	}
}
