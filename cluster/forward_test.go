package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/cluster/call"
	"github.com/holdfast-metal/holdfast/cluster/clustertest"
	"github.com/holdfast-metal/holdfast/cluster/outcome"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// script answers StartRun with prescribed errors, on any leader.
type script struct {
	mu      sync.Mutex
	answers []error // of the next calls; after them, OK
	calls   []string
	auth    string
	block   chan struct{} // if not nil, calls wait for it
}

func (s *script) set(answers ...error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers, s.calls = answers, nil
}

func (s *script) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.calls)
}

// runs is the peer's RunService.
type runs struct {
	holdfastv1.UnimplementedRunServiceServer
	*script
	p *clustertest.Peer
}

func (r runs) StartRun(ctx context.Context, req *holdfastv1.StartRunRequest) (*holdfastv1.Run, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	r.mu.Lock()
	r.calls = append(r.calls, r.p.ID)
	r.auth = strings.Join(md.Get("authorization"), ",")
	var err error
	if len(r.answers) > 0 {
		err, r.answers = r.answers[0], r.answers[1:]
	}
	block := r.block
	r.mu.Unlock()
	if block != nil {
		select {
		case <-block:
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		}
	}
	_ = grpc.SetHeader(ctx, metadata.Pairs("x-handler", r.p.ID))
	_ = grpc.SetTrailer(ctx, metadata.Pairs("x-trailer", r.p.ID))
	if err != nil {
		return nil, err
	}
	return &holdfastv1.Run{RunId: r.p.ID, RequestId: req.GetRequestId()}, nil
}

// followFilter makes the fake watch run until its context ends.
const followFilter = "follow"

func (r runs) WatchRuns(req *holdfastv1.WatchRunsRequest, s grpc.ServerStreamingServer[holdfastv1.RunEvent]) error {
	v, err := r.p.Node.View(s.Context())
	if err != nil {
		return err
	}
	if err := s.Send(&holdfastv1.RunEvent{Cursor: v.Index()}); err != nil || req.GetFilter() != followFilter {
		return err
	}
	<-s.Context().Done()
	return s.Context().Err()
}

// A stream on an isolated peer ends, so that the client can use another peer. A stale stream
// continues.
func TestStrandedStreams(t *testing.T) {
	t.Parallel()
	c, _, leader, follower := scripted(t, nil)
	open := func(ctx context.Context) grpc.ServerStreamingClient[holdfastv1.RunEvent] {
		s, err := holdfastv1.NewRunServiceClient(follower.Conn).WatchRuns(ctx,
			&holdfastv1.WatchRunsRequest{Filter: followFilter})
		if err == nil {
			_, err = s.Recv()
		}
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	fresh := open(ctx)
	stale := open(metadata.AppendToOutgoingContext(ctx, call.HeaderConsistency, "stale"))
	for _, p := range append(c.Followers(leader), leader) {
		if p != follower {
			c.Kill(p)
		}
	}
	if _, err := fresh.Recv(); status.Code(err) != codes.Unavailable || reason(err) != outcome.ReasonNoLeader {
		t.Errorf("stream of an isolated peer: got %v, want UNAVAILABLE, %s", err, outcome.ReasonNoLeader)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := stale.Recv()
		ended <- err
	}()
	select {
	case err := <-ended:
		t.Errorf("stale stream: got %v, want it to continue", err)
	case <-time.After(300 * time.Millisecond):
	}
	cancel()
	if err := <-ended; status.Code(err) != codes.Canceled {
		t.Errorf("canceled stale stream: got %v, want canceled", err)
	}
}

// boots implements InstallService, which also answers without a leader.
type boots struct {
	holdfastv1.UnimplementedInstallServiceServer
	p *clustertest.Peer
}

func (b boots) LookUpBoot(
	ctx context.Context, _ *holdfastv1.BootMachineRequest,
) (*holdfastv1.BootMachineResponse, error) {
	ctx, cancel := context.WithTimeout(call.WithConsistency(ctx, call.Consistency{}), 500*time.Millisecond)
	defer cancel()
	if _, err := b.p.Node.View(ctx); err != nil {
		return &holdfastv1.BootMachineResponse{Reason: "no leader"}, nil
	}
	return &holdfastv1.BootMachineResponse{Reason: "as the leader knows"}, nil
}

// A machine that boots while there is no majority gets its boot device from any peer. It must not
// hang in its firmware.
func TestBootLookupWithoutLeader(t *testing.T) {
	t.Parallel()
	c, _, leader, follower := scripted(t, nil)
	lookUp := func(want string) {
		t.Helper()
		err := inTime(t, 5*time.Second, func(ctx context.Context) error {
			got, err := holdfastv1.NewInstallServiceClient(follower.Conn).LookUpBoot(ctx,
				&holdfastv1.BootMachineRequest{Mac: "02:00:00:00:00:09"})
			if err == nil && got.GetReason() != want {
				err = fmt.Errorf("got %q, want %q", got.GetReason(), want)
			}
			return err
		})
		if err != nil {
			t.Errorf("look up the boot device: %v", err)
		}
	}
	lookUp("as the leader knows")
	for _, p := range append(c.Followers(leader), leader) {
		if p != follower {
			c.Kill(p)
		}
	}
	lookUp("no leader")
}

// scripted starts a cluster with the script, and returns its leader and a follower.
func scripted(
	t *testing.T, configure func(int, *cluster.Config),
) (c *clustertest.Cluster, s *script, leader, follower *clustertest.Peer) {
	s = &script{}
	c = clustertest.Start(t, clustertest.Options{Configure: configure, Register: func(_ int, p *clustertest.Peer) {
		holdfastv1.RegisterRunServiceServer(p.GRPC, runs{script: s, p: p})
		holdfastv1.RegisterInstallServiceServer(p.GRPC, boots{p: p})
	}})
	leader = c.Leader()
	settled(t, c, 3)
	return c, s, leader, c.Followers(leader)[0]
}

func startRun(
	ctx context.Context, p *clustertest.Peer, requestID string, opts ...grpc.CallOption,
) (*holdfastv1.Run, error) {
	return holdfastv1.NewRunServiceClient(p.Conn).StartRun(ctx,
		&holdfastv1.StartRunRequest{RequestId: requestID, MachineId: "m"}, opts...)
}

func reason(err error) string {
	for _, d := range status.Convert(err).Details() {
		if i, ok := d.(*errdetails.ErrorInfo); ok {
			return i.GetReason()
		}
	}
	return ""
}

func TestForward(t *testing.T) {
	t.Parallel()
	c, s, leader, follower := scripted(t, calm)
	lost := &outcome.Error{Outcome: outcome.Unknown, Err: errors.New("lost")}
	moved := &outcome.Error{Outcome: outcome.NotApplied, Err: errors.New("moved")}
	busy := status.Error(codes.FailedPrecondition, "busy")
	for _, tc := range []struct {
		name      string
		requestID string
		answers   []error
		code      codes.Code
		reason    string
		calls     int
	}{
		{"answered", "", nil, codes.OK, "", 1},
		{"refusal", "r", []error{busy}, codes.FailedPrecondition, "", 1},
		{"not applied is retried", "", []error{moved, moved}, codes.OK, "", 3},
		{"unknown is delivered again", "", []error{lost, lost}, codes.OK, "", 3},
		{"unknown is retried under a request id", "r", []error{lost, lost}, codes.OK, "", 3},
		{"unknown, then refused", "r", []error{lost, busy}, codes.FailedPrecondition, "", 2},
	} {
		for _, via := range []*clustertest.Peer{leader, follower} {
			t.Run(fmt.Sprintf("%s/%t", tc.name, via == leader), func(t *testing.T) {
				s.set(tc.answers...)
				run, err := startRun(t.Context(), via, tc.requestID)
				if got := status.Code(err); got != tc.code {
					t.Errorf("got %v, want %v", err, tc.code)
				}
				if got := reason(err); got != tc.reason {
					t.Errorf("got reason %q, want %q", got, tc.reason)
				}
				if err == nil && run.GetRunId() != leader.ID {
					t.Errorf("got an answer of %s, want %s", run.GetRunId(), leader.ID)
				}
				if got := s.count(); got != tc.calls {
					t.Errorf("got %d calls of the handler, want %d", got, tc.calls)
				}
			})
		}
	}
	t.Run("unknown, then not applied", func(t *testing.T) {
		err := inTime(t, 500*time.Millisecond, func(ctx context.Context) error {
			s.set(lost, moved, moved, moved, moved, moved, moved, moved, moved, moved, moved, moved, moved)
			_, err := startRun(ctx, follower, "r")
			return err
		})
		if got := reason(err); got != outcome.ReasonOutcomeUnknown {
			t.Errorf("got %v, want outcome unknown", err)
		}
	})
	t.Run("already forwarded", func(t *testing.T) {
		s.set()
		ctx := metadata.AppendToOutgoingContext(t.Context(), "holdfast-forwarded-by", "another-peer")
		start := time.Now()
		_, err := startRun(ctx, follower, "r")
		if status.Code(err) != codes.Unavailable || reason(err) != outcome.ReasonNotApplied || s.count() != 0 {
			t.Errorf("got %v after %d calls, want UNAVAILABLE, not applied, after none", err, s.count())
		}
		if took := time.Since(start); took > 6*time.Second { // a wait for a leader would take 8 s
			t.Errorf("got a refusal after %v, want at most 6s", took)
		}
	})
	t.Run("headers", func(t *testing.T) {
		for _, via := range c.Peers {
			s.set()
			var h, tr metadata.MD
			ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer x")
			if _, err := startRun(ctx, via, "r", grpc.Header(&h), grpc.Trailer(&tr)); err != nil {
				t.Fatal(err)
			}
			for key, want := range map[string]string{call.HeaderLeader: leader.ID, call.HeaderLastContact: "0",
				"x-handler": leader.ID} {
				if got := strings.Join(h.Get(key), ","); got != want {
					t.Errorf("through %s: %s: got %q, want %q", via.ID, key, got, want)
				}
			}
			if got, want := strings.Join(tr.Get("x-trailer"), ","), leader.ID; got != want {
				t.Errorf("through %s: trailer: got %q, want %q", via.ID, got, want)
			}
			if i, err := strconv.ParseUint(strings.Join(h.Get(call.HeaderIndex), ","), 10, 64); err != nil || i == 0 {
				t.Errorf("through %s: got index %v (%v)", via.ID, h.Get(call.HeaderIndex), err)
			}
			if s.auth != "Bearer x" {
				t.Errorf("through %s: got authorization %q in the handler", via.ID, s.auth)
			}
		}
		var h metadata.MD
		stale := metadata.AppendToOutgoingContext(t.Context(), call.HeaderConsistency, "stale")
		_, err := follower.Machines().GetMachine(stale, &holdfastv1.GetMachineRequest{MachineId: "none"}, grpc.Header(&h))
		if status.Code(err) != codes.NotFound || len(h.Get(call.HeaderIndex)) != 1 ||
			strings.Join(h.Get(call.HeaderLeader), ",") != leader.ID {
			t.Errorf("headers of an error: got %v (%v)", h, err)
		}
	})
	t.Run("too large", func(t *testing.T) {
		_, err := follower.Machines().RegisterMachine(t.Context(), &holdfastv1.RegisterMachineRequest{
			Machine: &holdfastv1.Machine{MachineId: strings.Repeat("x", 600<<10)},
		})
		if status.Code(err) != codes.InvalidArgument || reason(err) != outcome.ReasonTooLarge {
			t.Errorf("got %v, want INVALID_ARGUMENT, too large", err)
		}
	})
}

func TestBrokenCalls(t *testing.T) {
	t.Parallel()
	c, s, leader, follower := scripted(t, calm)
	s.mu.Lock()
	s.block = make(chan struct{})
	s.mu.Unlock()
	type answer struct {
		run *holdfastv1.Run
		err error
	}
	without, with := make(chan answer, 1), make(chan answer, 1)
	go func() { r, err := startRun(t.Context(), follower, ""); without <- answer{r, err} }()
	go func() { r, err := startRun(t.Context(), follower, "r"); with <- answer{r, err} }()
	clustertest.Eventually(t, 10*time.Second, "both calls to reach the leader", func() error {
		if got := s.count(); got != 2 {
			return fmt.Errorf("%d", got)
		}
		return nil
	})
	c.Kill(leader)
	next := c.Leader()
	s.mu.Lock()
	close(s.block)
	s.mu.Unlock()
	if a := <-with; a.err != nil || a.run.GetRunId() != next.ID {
		t.Errorf("with a request id: got %v from %s, want an answer from %s", a.err, a.run.GetRunId(), next.ID)
	}
	if a := <-without; a.err != nil || a.run.GetRunId() != next.ID {
		t.Errorf("without a request id: got %v from %s, want an answer from %s", a.err, a.run.GetRunId(), next.ID)
	}
}

func TestReads(t *testing.T) {
	t.Parallel()
	c, _, leader, follower := scripted(t, calm)
	if err := register(t.Context(), leader, "m"); err != nil {
		t.Fatal(err)
	}
	t.Run("min index", func(t *testing.T) {
		at := leader.FSM.Applied()
		for _, consistency := range []string{"stale", "linearizable"} {
			for _, p := range c.Peers {
				ctx := metadata.AppendToOutgoingContext(t.Context(), call.HeaderConsistency, consistency,
					call.HeaderMinIndex, fmt.Sprint(at))
				var h metadata.MD
				_, err := p.Machines().GetMachine(ctx, &holdfastv1.GetMachineRequest{MachineId: "m"}, grpc.Header(&h))
				if err != nil {
					t.Errorf("%s read on %s at index %d: %v", consistency, p.ID, at, err)
				}
				if i, _ := strconv.ParseUint(strings.Join(h.Get(call.HeaderIndex), ""), 10, 64); i < at {
					t.Errorf("%s read on %s: got index %d, want at least %d", consistency, p.ID, i, at)
				}
			}
		}
	})
	t.Run("unreached index", func(t *testing.T) {
		err := inTime(t, 300*time.Millisecond, func(ctx context.Context) error {
			return get(metadata.AppendToOutgoingContext(ctx, call.HeaderConsistency, "stale", call.HeaderMinIndex,
				"1000000"), follower, "m")
		})
		if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "1000000") {
			t.Errorf("got %v, want UNAVAILABLE with the index", err)
		}
	})
	t.Run("invalid values", func(t *testing.T) {
		ctx := metadata.AppendToOutgoingContext(t.Context(), call.HeaderConsistency, "maybe")
		if err := get(ctx, follower, "m"); status.Code(err) != codes.InvalidArgument {
			t.Errorf("got %v, want INVALID_ARGUMENT", err)
		}
	})
	t.Run("streams", func(t *testing.T) {
		for _, p := range c.Peers {
			id := "before-stream-" + p.ID
			if err := register(t.Context(), leader, id); err != nil {
				t.Fatal(err)
			}
			at := leader.FSM.Applied()
			w, err := holdfastv1.NewRunServiceClient(p.Conn).WatchRuns(t.Context(), &holdfastv1.WatchRunsRequest{})
			if err != nil {
				t.Fatal(err)
			}
			e, err := w.Recv()
			if err != nil || e.GetCursor() < at {
				t.Errorf("stream on %s: got cursor %d (%v), want at least %d", p.ID, e.GetCursor(), err, at)
			}
			if h, err := w.Header(); err != nil || strings.Join(h.Get(call.HeaderLeader), ",") != leader.ID {
				t.Errorf("stream on %s: got headers %v (%v)", p.ID, h, err)
			}
			if _, err := w.Recv(); !errors.Is(err, io.EOF) {
				t.Errorf("stream on %s: got end %v", p.ID, err)
			}
		}
	})
}
