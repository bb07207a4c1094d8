package watch

import (
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/internal/filter"
)

// Matches selects the changes for a stream with a filter. A change is selected if the
// resource matches after it, or did before it. So a watcher of phase=RUNNING sees a run end.
type Matches struct {
	filter  *filter.Filter
	resumed bool            // resources that are not in before may have matched before
	before  map[string]bool // by id, for resources whose match can change
}

// NewMatches returns the matches of a stream. A resumed stream does not know the resources
// that matched before its cursor. It selects the first change of a resource that could have
// matched, according to the fields that never change.
func NewMatches(f *filter.Filter, resumed bool) *Matches {
	return &Matches{filter: f, resumed: resumed, before: map[string]bool{}}
}

// Current reports whether a resource of the current state matches. Last is whether the
// resource can have no further change.
func (m *Matches) Current(id string, resource proto.Message, last bool) bool {
	matches := m.filter.Match(resource)
	if matches && !last && !m.filter.Fixed() {
		m.before[id] = true
	}
	return matches
}

// Selects reports whether a change must be sent. First and last are whether the change is
// the first or the last one of its resource.
func (m *Matches) Selects(id string, resource proto.Message, first, last bool) bool {
	matches := m.filter.Match(resource)
	if m.filter.Fixed() {
		return matches
	}
	before, known := m.before[id]
	if !known && m.resumed && !first {
		before = m.filter.Possible(resource)
	}
	if last {
		delete(m.before, id)
	} else {
		m.before[id] = matches
	}
	return matches || before
}
