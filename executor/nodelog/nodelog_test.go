package nodelog

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-metal/holdfast/cluster/leader"
	"github.com/holdfast-metal/holdfast/executor/executortest"
	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

func createNode(l *executortest.Lab, id, mac string) {
	l.Must(&internalv1.Command{Op: &internalv1.Command_CreateNode{
		CreateNode: &internalv1.CreateNode{MachineId: id, MacAddress: mac}}})
}

func approve(l *executortest.Lab, id string) {
	l.Must(&internalv1.Command{Op: &internalv1.Command_TransitionNode{
		TransitionNode: &internalv1.TransitionNode{Id: id, State: holdfastv1.Node_PENDING, Comment: "approved"}}})
}

// Changes of a node, an agent and a pool are logged once each, for every caller. Changes of
// other facets, and those before the cursor, are not logged.
func TestFollow(t *testing.T) {
	l := executortest.New(t, fake.Config{})
	createNode(l, "m-0", "52:54:00:00:00:01")
	cursor := l.FSM.View().LastEvent()
	createNode(l, "m-1", "52:54:00:00:00:02")
	approve(l, "m-1")
	l.Must(&internalv1.Command{Op: &internalv1.Command_ReportNode{ReportNode: &internalv1.ReportNode{
		Report: &holdfastv1.ReportNodeRequest{MacAddress: "52:54:00:00:00:02", InstallationStatus: "started"},
		RunId:  "run-1"}}})
	l.Machine("m-2")
	l.Must(&internalv1.Command{Op: &internalv1.Command_RegisterPool{
		RegisterPool: &internalv1.RegisterPool{Pool: &holdfastv1.Pool{PoolId: "gpu"}, TtlMs: 30_000}}})
	l.Must(&internalv1.Command{Op: &internalv1.Command_RegisterAgent{RegisterAgent: &internalv1.RegisterAgent{
		Agent: &holdfastv1.RegisterAgentRequest{MachineId: "m-3", PoolName: "gpu"}, TtlMs: 300_000}}})

	var out bytes.Buffer
	log := New(l.FSM, slog.New(slog.NewTextHandler(&out, nil)))
	cursor = log.follow(t.Context(), l.FSM.View(), cursor)
	if again := log.follow(t.Context(), l.FSM.View(), cursor); again != cursor || cursor != l.FSM.View().LastEvent() {
		t.Errorf("got cursor %d and then %d, want %d", cursor, again, l.FSM.View().LastEvent())
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	for i, want := range []string{
		`machine=m-1 sequence=2 from="" to=discovered triggered_by=admin`,
		`from=discovered to=pending triggered_by=admin principal="" run="" comment=approved`,
		`from=pending to=installing triggered_by=node_report`,
		`msg="pool status changed" pool=gpu status=REGISTERED`,
		`msg="agent state changed" machine=m-3`,
	} {
		if i >= len(lines) || !strings.Contains(lines[i], want) {
			t.Fatalf("got\n%s\nwant %q in line %d", out.String(), want, i)
		}
	}
	if len(lines) != 5 || strings.Contains(out.String(), "m-0") {
		t.Errorf("got\n%s\nwant five lines: three of m-1, one of gpu and one of m-3", out.String())
	}
}

// syncBuffer is a buffer for several goroutines that signals each write.
type syncBuffer struct {
	mu      sync.Mutex
	text    bytes.Buffer
	written chan struct{}
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case b.written <- struct{}{}:
	default:
	}
	return b.text.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// A leader logs only the changes of its own term, and its end is not an error.
func TestRun(t *testing.T) {
	l := executortest.New(t, fake.Config{})
	createNode(l, "m-1", "52:54:00:00:00:01")
	out := &syncBuffer{written: make(chan struct{}, 1)}
	started := make(chan struct{})
	state := &reads{FSM: l.FSM, first: sync.OnceFunc(func() { close(started) })}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan error, 1)
	go func() { done <- New(state, slog.New(slog.NewTextHandler(out, nil))).Run(ctx, leader.NewTerm(1, nil)) }()
	<-started
	approve(l, "m-1")
	<-out.written
	stop()
	if err := <-done; err != nil {
		t.Errorf("got %v, want nil", err)
	}
	if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "to=pending") {
		t.Errorf("got\n%s\nwant one line of the approval", got)
	}
}

// reads signals that the task has read its first cursor.
type reads struct {
	*fsm.FSM
	first func()
}

// Changed is called after the first cursor was read.
func (r *reads) Changed() <-chan struct{} {
	defer r.first()
	return r.FSM.Changed()
}
