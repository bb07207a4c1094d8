package console

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/auth"
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
	c, err := s.cfg.Consoles.Attach(opening, run, auth.From(ctx).GetPrincipal(), !first.GetReadOnly())
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
	record, err := s.begin(ctx, first)
	if err != nil {
		return err
	}
	committing, stopCommits := context.WithCancel(ctx)
	committed := make(chan struct{})
	go func() {
		defer close(committed)
		record.run(committing)
	}()
	why := "the connection was lost"
	defer func() {
		stopCommits()
		<-committed
		record.close(ctx, why)
	}()
	id, _, _ := s.cfg.Leader()
	begun := &holdfastv1.AttachResponse{Attached: true, Peer: id, SessionId: record.id, Recorded: record.keeps}
	if err := stream.Send(begun); err != nil {
		return err
	}
	shown := make(chan error, 1)
	go func() { shown <- showConsole(stream, c, record) }()
	typed := make(chan error, 1)
	go func() { typed <- s.typeConsole(ctx, stream, c, record, first) }()
	select {
	case err = <-typed: // the caller has left or disconnected
		leaves = errors.Is(err, errLeft)
		stop(nil)
		_ = c.Close()
		<-shown //nolint:errcheck // the cause is already known
		why = endOf(ctx, err)
		if leaves {
			err = nil
		}
		return err
	case err = <-shown:
		why = endOf(ctx, err)
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return err // which also ends typeConsole
	case <-s.Draining:
		why = "the peer stopped"
		stop(edge.ErrDraining)
		_ = c.Close()
		<-shown //nolint:errcheck // the cause is already known
		return edge.ErrDraining
	}
}

// endOf returns why a session ends. It is recorded, so it has no text from outside.
func endOf(ctx context.Context, err error) string {
	refused, isRefusal := errors.AsType[*fsm.Error](err)
	ended, isAuth := errors.AsType[*auth.Error](err)
	if cause, ok := errors.AsType[*auth.Error](context.Cause(ctx)); ok {
		ended, isAuth = cause, true
	}
	switch {
	case errors.Is(err, errLeft):
		return "the caller left"
	case errors.Is(err, io.EOF):
		return "the console was closed"
	case isAuth:
		return "the caller's credentials ended: " + ended.Reason
	case isRefusal:
		return "refused: " + refused.Reason
	}
	return "the connection was lost"
}

// errLeft ends a stream after its caller has left the console.
var errLeft = errors.New("left")

// showConsole sends the output of the console, and records it.
func showConsole(stream consoleStream, c io.Reader, record *session) error {
	buf := make([]byte, consoleMessage)
	for {
		n, err := c.Read(buf)
		if err != nil {
			return err
		}
		data := bytes.Clone(buf[:n])
		record.show(data)
		if err := stream.Send(&holdfastv1.AttachResponse{Data: data}); err != nil {
			return err
		}
	}
}

// typeConsole writes the caller's input to the console, starting with that of the first
// message.
func (s *Service) typeConsole(
	ctx context.Context, stream consoleStream, c io.Writer, record *session, r *holdfastv1.AttachRequest,
) error {
	write := !r.GetReadOnly()
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
			record.input(len(r.GetData()))
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
