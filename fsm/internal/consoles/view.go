// Package consoles has the rules of console sessions: which callers were attached to the console of
// a machine, and the records of its output. It must not know how a console is opened.
package consoles

import (
	"cmp"
	"iter"
	"time"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/table"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// View has the queries of this package.
type View struct{ s *core.State }

// NewView returns the queries of a frozen state.
func NewView(s *core.State) View { return View{s} }

// ConsoleSession returns the console session with an id.
func (v *View) ConsoleSession(id string) (*holdfastv1.ConsoleSession, bool) {
	return v.s.ConsoleSessions.Get(id)
}

// ConsoleSessions returns the console sessions with an id below before, newest first. An empty
// before starts at the newest.
func (v *View) ConsoleSessions(before string) iter.Seq[*holdfastv1.ConsoleSession] {
	return v.s.ConsoleSessions.Descend("", cmp.Or(before, "~")) // ids are letters, digits and . _ - :
}

// ConsoleOutput returns the recorded output of a console session.
func (v *View) ConsoleOutput(id string) iter.Seq[*holdfastv1.ConsoleOutput] {
	return func(yield func(*holdfastv1.ConsoleOutput) bool) {
		for b := range v.s.ConsoleOutput.Ascend(id+"/", "") {
			for _, out := range b.GetOutput() {
				if !yield(out) {
					return
				}
			}
		}
	}
}

// DueConsoles returns the ids of at most limit console sessions whose time is up.
func (v *View) DueConsoles(now time.Time, limit int) (ids []string) {
	all := table.Map(v.s.ConsoleSessions.Ascend("", ""), func(s *holdfastv1.ConsoleSession) string {
		if due(s, now) {
			return s.GetSessionId()
		}
		return ""
	})
	for id := range all {
		if len(ids) == limit {
			break
		}
		if id != "" {
			ids = append(ids, id)
		}
	}
	return ids
}

// due reports whether the time of a console session is up.
func due(s *holdfastv1.ConsoleSession, now time.Time) bool {
	return s.GetDetachedAt() != nil && !now.Before(s.GetKeepUntil().AsTime())
}

// cost returns how much a piece of output counts in recorded_bytes.
func cost(out *holdfastv1.ConsoleOutput) int64 { return int64(len(out.GetData())) + 16 }

// blockCost returns how much some output counts.
func blockCost(b *internalv1.StoredOutput) (n int64) {
	for _, out := range b.GetOutput() {
		n += cost(out)
	}
	return n
}
