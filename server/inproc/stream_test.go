package inproc_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/inproc"
)

// runs sends one event, and then waits or fails.
type runs struct {
	holdfastv1.UnimplementedRunServiceServer
	md   metadata.MD
	left chan error
}

func (r *runs) WatchRuns(req *holdfastv1.WatchRunsRequest, s grpc.ServerStreamingServer[holdfastv1.RunEvent]) error {
	r.md, _ = metadata.FromIncomingContext(s.Context())
	if err := s.SetHeader(metadata.Pairs("holdfast-index", "7")); err != nil {
		return err
	}
	e := &holdfastv1.RunEvent{Message: req.GetFilter(), Snapshot: &holdfastv1.Run{Steps: []*holdfastv1.StepStatus{{}}}}
	if err := s.Send(e); err != nil {
		return err
	}
	e.Snapshot.Steps[0].Name = "changed later"
	if req.GetBookmarks() {
		<-s.Context().Done()
		r.left <- s.Send(e)
		return s.Context().Err()
	}
	s.SetTrailer(metadata.Pairs("t", "1"))
	if req.GetFilter() == "bad" {
		return status.Error(codes.OutOfRange, "gone")
	}
	return nil
}

// consoles echoes the input.
type consoles struct {
	holdfastv1.UnimplementedConsoleServiceServer
}

func (consoles) Attach(s grpc.BidiStreamingServer[holdfastv1.AttachRequest, holdfastv1.AttachResponse]) error {
	for {
		r, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if r.GetLeave() {
			return status.Error(codes.Aborted, "left")
		}
		if err := s.Send(&holdfastv1.AttachResponse{Data: r.GetData()}); err != nil {
			return err
		}
	}
}

func streaming(t *testing.T) (holdfastv1.RunServiceClient, holdfastv1.ConsoleServiceClient, *runs, *[]string) {
	t.Helper()
	impl, intercepted := &runs{left: make(chan error, 1)}, &[]string{}
	s := inproc.New(nil, func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		*intercepted = append(*intercepted, info.FullMethod)
		return next(srv, ss)
	})
	holdfastv1.RegisterRunServiceServer(s, impl)
	holdfastv1.RegisterConsoleServiceServer(s, consoles{})
	return holdfastv1.NewRunServiceClient(s), holdfastv1.NewConsoleServiceClient(s), impl, intercepted
}

// TestServerStream checks messages, header, trailer, the end and the error of a stream.
func TestServerStream(t *testing.T) {
	for filter, want := range map[string]codes.Code{"good": codes.OK, "bad": codes.OutOfRange} {
		synctest.Test(t, func(t *testing.T) {
			c, _, impl, intercepted := streaming(t)
			ctx := metadata.AppendToOutgoingContext(t.Context(), "holdfast-consistency", "stale")
			s, err := c.WatchRuns(ctx, &holdfastv1.WatchRunsRequest{Filter: filter})
			if err != nil {
				t.Fatal(err)
			}
			header, err := s.Header()
			if err != nil || header.Get("holdfast-index")[0] != "7" {
				t.Errorf("got header %v, %v", header, err)
			}
			e, err := s.Recv()
			if err != nil || e.GetMessage() != filter {
				t.Errorf("got %v, %v", e, err)
			}
			synctest.Wait()
			if got := e.GetSnapshot().GetSteps()[0].GetName(); got != "" {
				t.Errorf("got step %q, which the handler changed after it sent the message", got)
			}
			_, err = s.Recv()
			if status.Code(err) != want && !errors.Is(err, io.EOF) || errors.Is(err, io.EOF) != (want == codes.OK) {
				t.Errorf("got %v, want %v", err, want)
			}
			if s.Trailer().Get("t")[0] != "1" {
				t.Errorf("got trailer %v", s.Trailer())
			}
			const method = "/holdfast.v1.RunService/WatchRuns"
			if diff := cmp.Diff([]string{method}, *intercepted); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(metadata.Pairs("holdfast-consistency", "stale"), impl.md); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestAbandonedStream checks that a handler ends when its caller goes away.
func TestAbandonedStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, impl, _ := streaming(t)
		ctx, cancel := context.WithCancel(t.Context())
		s, err := c.WatchRuns(ctx, &holdfastv1.WatchRunsRequest{Bookmarks: true})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Recv(); err != nil {
			t.Fatal(err)
		}
		cancel()
		if _, err := s.Recv(); status.Code(err) != codes.Canceled {
			t.Errorf("got %v", err)
		}
		if err := <-impl.left; status.Code(err) != codes.Canceled {
			t.Errorf("handler: got %v", err)
		}
	})
}

// TestBidiStream checks both directions, CloseSend, and sending after the handler's end.
func TestBidiStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c, _, _ := streaming(t)
		for _, leave := range []bool{false, true} {
			s, err := c.Attach(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Send(&holdfastv1.AttachRequest{Data: []byte("ls")}); err != nil {
				t.Fatal(err)
			}
			if r, err := s.Recv(); err != nil || string(r.GetData()) != "ls" {
				t.Errorf("got %v, %v", r, err)
			}
			if leave {
				_ = s.Send(&holdfastv1.AttachRequest{Leave: true})
				synctest.Wait()
				if err := s.Send(&holdfastv1.AttachRequest{}); !errors.Is(err, io.EOF) {
					t.Errorf("send after the end: got %v", err)
				}
				if _, err := s.Recv(); status.Code(err) != codes.Aborted {
					t.Errorf("got %v", err)
				}
				continue
			}
			if err := s.CloseSend(); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Recv(); !errors.Is(err, io.EOF) {
				t.Errorf("got %v", err)
			}
		}
	})
}
