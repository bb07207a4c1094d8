package runs

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// maxLogBatch is the maximum number of bytes of log in one command. A batch is committed
// when it is full, or after LogFlush.
const maxLogBatch = 64 << 10

// logSet contains the logs of the active runs.
type logSet struct {
	mu   sync.Mutex
	logs map[string]*runLog
	full chan struct{} // a log has a full batch: commit before the next tick
}

func newLogSet() *logSet {
	return &logSet{logs: map[string]*runLog{}, full: make(chan struct{}, 1)}
}

func (s *logSet) add(run string, offset int64) *runLog {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &runLog{run: run, offset: offset, full: s.full}
	s.logs[run] = l
	return l
}

func (s *logSet) remove(run string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.logs, run)
}

func (s *logSet) all() []*runLog {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.logs))
}

// runLog is the part of a run's log that is not committed yet.
type runLog struct {
	run  string
	full chan<- struct{}

	committing sync.Mutex // held from take to committed, so that offsets are consecutive

	mu      sync.Mutex
	pending []*holdfastv1.LogChunk
	size    int
	offset  int64 // of pending in the run log
}

// write adds a chunk, split so that no piece is larger than a batch. Data beyond the size
// limit of a run log is dropped here; the FSM writes the marker that the log is
// truncated.
func (l *runLog) write(c *holdfastv1.LogChunk) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for data := c.GetData(); len(data) > 0; {
		if l.offset+int64(l.size) > fsm.MaxRunLog {
			return
		}
		n := min(len(data), maxLogBatch)
		l.pending = append(l.pending, &holdfastv1.LogChunk{
			Ts:      c.GetTs(),
			Stream:  c.GetStream(),
			Step:    c.GetStep(),
			Attempt: c.GetAttempt(),
			Data:    data[:n:n],
		})
		l.size += n
		data = data[n:]
	}
	if l.size >= maxLogBatch {
		select {
		case l.full <- struct{}{}:
		default:
		}
	}
}

// take returns the pending chunks, up to room bytes, and whether there are more. The
// caller holds committing.
func (l *runLog) take(room int) (a *internalv1.LogAppend, size int, more bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for n < len(l.pending) && size+len(l.pending[n].GetData()) <= room {
		size += len(l.pending[n].GetData())
		n++
	}
	if n > 0 {
		a = &internalv1.LogAppend{RunId: l.run, Offset: l.offset, Chunks: l.pending[:n:n]}
	}
	return a, size, n < len(l.pending)
}

// committed removes the chunks that take returned.
func (l *runLog) committed(a *internalv1.LogAppend, size int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending = l.pending[len(a.GetChunks()):]
	l.size -= size
	l.offset += int64(size)
}

// last commits all pending chunks. The last batch is passed to commit, to be proposed
// together with the outcome.
func (l *runLog) last(appendTo func(*internalv1.LogAppend) error, commit func(rest *internalv1.LogAppend) error) error {
	l.committing.Lock()
	defer l.committing.Unlock()
	for {
		a, size, more := l.take(maxLogBatch)
		propose := commit
		if more {
			propose = appendTo
		}
		if err := propose(a); err != nil {
			return err
		}
		l.committed(a, size)
		if !more {
			return nil
		}
	}
}

// flushLogs commits the logs of runs until the term ends, many runs in one command.
func (t *term) flushLogs(ctx context.Context) error {
	tick := time.NewTicker(t.cfg.LogFlush)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		case <-t.logs.full:
		}
		for more := true; more; {
			var err error
			if more, err = t.flushBatch(ctx); err != nil {
				return err
			}
		}
	}
}

// flushBatch commits one batch and reports whether there is more.
func (t *term) flushBatch(ctx context.Context) (more bool, err error) {
	type taken struct {
		log  *runLog
		a    *internalv1.LogAppend
		size int
	}
	var batch []taken
	defer func() {
		for _, b := range batch {
			b.log.committing.Unlock()
		}
	}()
	appends, room := []*internalv1.LogAppend(nil), maxLogBatch
	for _, log := range t.logs.all() {
		log.committing.Lock()
		a, size, rest := log.take(room)
		more = more || rest
		if a == nil {
			log.committing.Unlock()
			continue
		}
		batch, appends, room = append(batch, taken{log, a, size}), append(appends, a), room-size
	}
	if len(appends) == 0 {
		return false, nil
	}
	if err := t.appendLogs(ctx, appends...); err != nil {
		return false, err
	}
	// failpoint: logs-committed
	for _, b := range batch {
		b.log.committed(b.a, b.size)
	}
	return more, nil
}

func (t *term) appendLogs(ctx context.Context, appends ...*internalv1.LogAppend) error {
	_, err := t.propose(ctx, &internalv1.Command{Op: &internalv1.Command_AppendRunLogs{
		AppendRunLogs: &internalv1.AppendRunLogs{Appends: appends}}})
	return err
}
