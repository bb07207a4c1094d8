package watch

import "time"

// Batch is the maximum number of events that a stream reads from the state at once.
const Batch = 256

// A bookmark is due after so many events, or after such a time. Many more events are kept
// (65,536).
const (
	bookmarkEvents = 4096
	bookmarkPause  = 5 * time.Second
)

// Bookmarks tracks the last cursor that a stream has sent to its client. The client resumes
// from there, so it must not become so old that its events are no longer kept.
type Bookmarks struct {
	cursor uint64
	at     time.Time
}

// Sent records that the client has a cursor.
func (b *Bookmarks) Sent(cursor uint64) { b.cursor, b.at = cursor, time.Now() }

// Due reports whether a stream that has read the events up to a cursor must send a bookmark.
func (b *Bookmarks) Due(cursor uint64) bool {
	return cursor > b.cursor && (cursor-b.cursor >= bookmarkEvents || time.Since(b.at) >= bookmarkPause)
}
