package server

import (
	"context"
	"iter"
	"strings"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/internal/scope"
)

// maxExamined bounds the records that a search reads, also if the caller may see none of them.
const maxExamined = 1000

// FindMachines returns up to most machines whose id, MAC address or serial begins with a text, or
// a label if it is key=value, for a caller that is already authorized. It reads this peer's state.
func (s *Server) FindMachines(ctx context.Context, text string, most int) []*holdfastv1.Machine {
	id := auth.From(ctx)
	return find(s.peer.State.View().MachinesWithPrefix(text), most, (*holdfastv1.Machine).GetMachineId,
		func(m *holdfastv1.Machine) bool { return scope.Visible(id, m) })
}

// FindRuns returns up to most runs whose id begins with a text, with or without "run-", as
// FindMachines does.
func (s *Server) FindRuns(ctx context.Context, text string, most int) []*holdfastv1.Run {
	v := s.peer.State.View()
	if !strings.HasPrefix(text, "run-") {
		text = "run-" + text
	}
	return find(v.RunsWithPrefix(text), most, (*holdfastv1.Run).GetRunId,
		scope.SeesRuns(auth.From(ctx), func() *fsm.View { return v }))
}

// find returns the first records that are visible, each once.
func find[M any](all iter.Seq[M], most int, key func(M) string, visible func(M) bool) []M {
	var found []M
	seen, examined := map[string]bool{}, 0
	for m := range all {
		if examined++; examined > maxExamined || len(found) == most {
			break
		}
		if k := key(m); !seen[k] && visible(m) {
			seen[k] = true
			found = append(found, m)
		}
	}
	return found
}
