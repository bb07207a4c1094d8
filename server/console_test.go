package server

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/internal/nodetest"
)

// echo is a console that returns its input.
type echo struct {
	mu     sync.Mutex
	left   []string
	taken  bool
	writes []bool
}

func (e *echo) Attach(_ context.Context, _, _ string, write bool) (io.ReadWriteCloser, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.writes = append(e.writes, write)
	if e.taken && write {
		return nil, &fsm.Error{Code: fsm.FailedPrecondition, Reason: "CONSOLE_TAKEN", Message: "somebody else types"}
	}
	r, w := io.Pipe()
	return struct {
		io.Reader
		io.Writer
		io.Closer
	}{r, w, w}, nil
}

func (e *echo) Leave(run string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.left = append(e.left, run)
}

func (e *echo) gone() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.left
}

// onePeer connects to a single peer.
type onePeer struct {
	id   string
	conn grpc.ClientConnInterface
}

func (p onePeer) Leader() (string, bool, bool)                      { return p.id, false, true }
func (p onePeer) PeerConn(string) (grpc.ClientConnInterface, error) { return p.conn, nil }

func attached(
	t *testing.T, c *clients, first *holdfastv1.AttachRequest,
) grpc.BidiStreamingClient[holdfastv1.AttachRequest, holdfastv1.AttachResponse] {
	t.Helper()
	s, err := holdfastv1.NewConsoleServiceClient(c.conn).Attach(testCtx(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send(first); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestConsoleIsRefused(t *testing.T) {
	for _, tt := range []struct {
		name   string
		leader string
		taken  bool
		first  *holdfastv1.AttachRequest
		code   codes.Code
		reason string
	}{
		{"no run", "p1", false, &holdfastv1.AttachRequest{}, codes.InvalidArgument, "INVALID_FIELD"},
		{"unknown run", "p1", false, &holdfastv1.AttachRequest{RunId: "run-none"}, codes.NotFound, "RUN_NOT_FOUND"},
		{"taken", "p1", true, &holdfastv1.AttachRequest{RunId: "run-1"}, codes.FailedPrecondition, "CONSOLE_TAKEN"},
		{"types while looking on", "p1", true, &holdfastv1.AttachRequest{RunId: "run-1", ReadOnly: true, Data: []byte("x")},
			codes.FailedPrecondition, "CONSOLE_READ_ONLY"},
		{"too much at once", "p1", false, &holdfastv1.AttachRequest{RunId: "run-1", Data: make([]byte, 4096+1)},
			codes.InvalidArgument, "INVALID_FIELD"},
		{"no leader", "", false, &holdfastv1.AttachRequest{RunId: "run-1"}, codes.Unavailable, "NO_LEADER"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := nodetest.New()
			n.Machine(t, "m-1")
			n.Start(t, "m-1", "run-1", "plan/console")
			n.SetLeader(tt.leader)
			_, c := serve(t, n, Config{Consoles: &echo{taken: tt.taken}})
			s := attached(t, c, tt.first)
			var err error
			for err == nil {
				_, err = s.Recv()
			}
			wantError(t, err, tt.code, tt.reason)
		})
	}
}

// The test attaches through a follower, types, and leaves.
func TestConsoleThroughAFollower(t *testing.T) {
	n := nodetest.New()
	n.Machine(t, "m-1")
	n.Start(t, "m-1", "run-1", "plan/console")
	n.SetLeader("p1")
	e := &echo{}
	_, leader := serve(t, n, Config{Consoles: e, PeerID: "p1", RecordConsoles: true})
	f := nodetest.New()
	f.Machine(t, "m-1")
	f.Start(t, "m-1", "run-1", "plan/console")
	f.SetLeader("p2")
	_, follower := serve(t, f, Config{Consoles: &echo{}, Peers: onePeer{"p2", leader.conn}, PeerID: "p1"})
	for _, c := range []*clients{leader, follower} {
		before := len(e.gone())
		s := attached(t, c, &holdfastv1.AttachRequest{RunId: "run-1"})
		first, err := s.Recv()
		if err != nil || !first.GetAttached() || first.GetPeer() != "p1" {
			t.Fatalf("first message is %v, %v", first, err)
		}
		if err := s.Send(&holdfastv1.AttachRequest{Data: []byte("root\r")}); err != nil {
			t.Fatal(err)
		}
		shown, err := s.Recv()
		if err != nil || string(shown.GetData()) != "root\r" {
			t.Fatalf("shown %q, %v", shown.GetData(), err)
		}
		if err := s.Send(&holdfastv1.AttachRequest{Leave: true}); err != nil {
			t.Fatal(err)
		}
		for err == nil {
			_, err = s.Recv()
		}
		if !errors.Is(err, io.EOF) {
			t.Errorf("left with %v, want the end", err)
		}
		eventually(t, "the leader knows that the caller has left", func() bool { return len(e.gone()) > before })
	}
}

// TestConsoleSessions attaches twice, to type and to read. Both are in the audit trail before the
// first output, with their ends, and the record of the first session is replayed.
func TestConsoleSessions(t *testing.T) {
	n := nodetest.New()
	n.Machine(t, "m-1")
	n.Start(t, "m-1", "run-1", "plan/console")
	n.SetLeader("p1")
	_, c := serve(t, n, Config{Consoles: &echo{}, PeerID: "p1", RecordConsoles: true})
	var ids []string
	for _, readOnly := range []bool{false, true} {
		s := attached(t, c, &holdfastv1.AttachRequest{RunId: "run-1", ReadOnly: readOnly})
		first, err := s.Recv()
		if err != nil || !first.GetRecorded() {
			t.Fatalf("first message is %v, %v, want a recorded session", first, err)
		}
		if open, ok := n.Peer.View().ConsoleSession(first.GetSessionId()); !ok || open.GetReadOnly() != readOnly ||
			open.GetDetachedAt() != nil || open.GetMachineId() != "m-1" || open.GetPrincipal() != "anonymous" {
			t.Errorf("when attached: got %v", open)
		}
		if !readOnly {
			if err := s.Send(&holdfastv1.AttachRequest{Data: []byte("root\r")}); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Recv(); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Send(&holdfastv1.AttachRequest{Leave: true}); err != nil {
			t.Fatal(err)
		}
		for err == nil {
			_, err = s.Recv()
		}
		ids = append(ids, first.GetSessionId())
	}
	var trail []string
	for e := range n.Peer.View().AuditEvents(0) {
		if strings.HasSuffix(e.GetMethod(), "/Attach") {
			trail = append(trail, strings.TrimPrefix(e.GetResource(), "machines/m-1/runs/run-1/consoles/")+" "+e.GetDetail())
		}
	}
	want := []string{
		ids[1] + " detached: the caller left",
		ids[1] + " attached to read",
		ids[0] + " detached after 5 bytes of input: the caller left",
		ids[0] + " attached to type",
	}
	if diff := cmp.Diff(want, trail); diff != "" {
		t.Errorf("audit trail (-want +got):\n%s", diff)
	}
	consoles := holdfastv1.NewConsoleServiceClient(c.conn)
	list, err := consoles.ListConsoleSessions(testCtx(t),
		&holdfastv1.ListConsoleSessionsRequest{Filter: "read_only = false"})
	if err != nil || len(list.GetSessions()) != 1 || list.GetSessions()[0].GetSessionId() != ids[0] {
		t.Errorf("got %v, %v, want session %s", list, err, ids[0])
	}
	replay := func(id string) (text string, err error) {
		s, err := consoles.ReplayConsole(testCtx(t), &holdfastv1.ReplayConsoleRequest{SessionId: id})
		for err == nil {
			var out *holdfastv1.ConsoleOutput
			if out, err = s.Recv(); err == nil {
				text += string(out.GetData())
			}
		}
		return text, err
	}
	if text, err := replay(ids[0]); text != "root\r" || !errors.Is(err, io.EOF) {
		t.Errorf("replay: got %q, %v", text, err)
	}
	_, err = replay(ids[1])
	wantError(t, err, codes.FailedPrecondition, "NOT_RECORDED")
	_, err = replay("con-none")
	wantError(t, err, codes.NotFound, "CONSOLE_SESSION_NOT_FOUND")
}
