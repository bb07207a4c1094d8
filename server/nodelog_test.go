package server

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Changes of a node, of an agent and of a pool are logged once each, for every caller.
// Changes of other facets are not logged.
func TestNodeLog(t *testing.T) {
	n := newNode()
	n.do(t, &internalv1.CreateNode{MachineId: "m-0", MacAddress: "52:54:00:00:00:01"})
	cursor := n.peer.View().LastNews()
	n.do(t, &internalv1.CreateNode{MachineId: "m-1", MacAddress: "52:54:00:00:00:02"})
	n.do(t, &internalv1.TransitionNode{Id: "m-1", State: holdfastv1.Node_PENDING, Comment: "approved"})
	n.machine(t, "m-2")
	n.do(t, &internalv1.RaiseFeatureLevel{Level: fsm.Level2})
	n.do(t, &internalv1.RegisterPool{Pool: &holdfastv1.Pool{PoolId: "gpu"}, TtlMs: 30_000})
	n.do(t, &internalv1.RegisterAgent{Agent: &holdfastv1.RegisterAgentRequest{MachineId: "m-3", PoolName: "gpu"},
		TtlMs: 300_000})

	var out bytes.Buffer
	l := NewNodeLog(n.peer, slog.New(slog.NewTextHandler(&out, nil)))
	cursor = l.follow(t.Context(), n.peer.View(), cursor)
	if l.follow(t.Context(), n.peer.View(), cursor) != n.peer.View().LastNews() || cursor != n.peer.View().LastNews() {
		t.Errorf("got to event %d, want %d", cursor, n.peer.View().LastNews())
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	for i, want := range []string{"machine=m-1", "comment=approved",
		`msg="pool status changed" pool=gpu status=REGISTERED`, `msg="agent state changed" machine=m-3`} {
		if i >= len(lines) || !strings.Contains(lines[i], want) {
			t.Fatalf("got\n%s\nwant %q in line %d", out.String(), want, i)
		}
	}
	if len(lines) != 4 || strings.Contains(out.String(), "m-0") {
		t.Errorf("got\n%s\nwant four lines, of m-1, gpu and m-3", out.String())
	}
}
