package server

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Changes of a node are logged whoever made them, once each; those of other facets are not.
func TestNodeLog(t *testing.T) {
	n := newNode()
	n.do(t, &internalv1.CreateNode{MachineId: "m-0", MacAddress: "52:54:00:00:00:01"})
	cursor := n.peer.View().LastNews()
	n.do(t, &internalv1.CreateNode{MachineId: "m-1", MacAddress: "52:54:00:00:00:02"})
	n.do(t, &internalv1.TransitionNode{Id: "m-1", State: holdfastv1.Node_PENDING, Comment: "approved"})
	n.machine(t, "m-2")

	var out bytes.Buffer
	l := NewNodeLog(n.peer, slog.New(slog.NewTextHandler(&out, nil)))
	cursor = l.follow(t.Context(), n.peer.View(), cursor)
	if l.follow(t.Context(), n.peer.View(), cursor) != n.peer.View().LastNews() || cursor != n.peer.View().LastNews() {
		t.Errorf("got to event %d, want %d", cursor, n.peer.View().LastNews())
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], "machine=m-1") || !strings.Contains(lines[1], "comment=approved") || strings.Contains(out.String(), "m-0") {
		t.Errorf("got\n%s\nwant the two changes of m-1", out.String())
	}
}
