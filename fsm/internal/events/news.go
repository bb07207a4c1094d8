package events

import (
	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// maxNews bounds how far back a watcher and a webhook can resume. It is a constant because
// every peer must keep the same events.
const maxNews = 1 << 16

// AddNews records an event for the watchers of all changes. Cursors count from 1 without a
// gap.
func AddNews(t *core.Tx, e *holdfastv1.Event) {
	t.Meta.LastNews++
	e.Cursor, e.Index, e.At = t.Meta.GetLastNews(), t.Index, t.Now
	t.News.Append(e)
	t.Meta.FirstNews = core.FirstKept(t.Meta.GetFirstNews(), t.Meta.GetLastNews(), maxNews)
	t.News.DropBefore(t.Meta.GetFirstNews())
}

// LastNews returns the cursor of the newest event, or zero if there is none.
func (v *View) LastNews() uint64 { return v.s.Meta.GetLastNews() }

// FirstNews returns the cursor of the oldest event kept, or zero if there is none.
func (v *View) FirstNews() uint64 { return v.s.Meta.GetFirstNews() }

// News returns at most limit events with a cursor above after, oldest first. It returns the
// errors of Events.
func (v *View) News(after uint64, limit int) ([]*holdfastv1.Event, error) {
	return read(v.s.News, kept{v.FirstNews(), v.LastNews()}, after, limit, "go on from now")
}
