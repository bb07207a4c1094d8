package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/internal/edge"
	"github.com/holdfast-metal/holdfast/server/internal/request"
)

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
