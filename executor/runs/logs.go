package runs

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// maxLogBatch is the maximum number of bytes of log in one command. A log is committed
// when it fills a batch, or after LogFlush.
const maxLogBatch = 64 << 10

// logSet contains the logs of the active runs.
type logSet struct {
	logSignals
	mu   sync.Mutex
	logs map[string]*runLog
}

// logSignals wake flushLogs. Each has a buffer of one.
type logSignals struct {
	begun chan struct{} // a log that had nothing to commit has something
	full  chan struct{} // a log has a full batch: commit it now
}

func newLogSet() *logSet {
	return &logSet{
		logSignals: logSignals{begun: make(chan struct{}, 1), full: make(chan struct{}, 1)},
		logs:       map[string]*runLog{},
	}
}

// signal sends to a channel with a buffer of one, unless it is full.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (s *logSet) add(run string, offset int64) *runLog {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &runLog{run: run, offset: offset, logSignals: s.logSignals}
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
	logSignals
	run string

	committing sync.Mutex // held from take to committed, so that offsets are consecutive

	mu      sync.Mutex
	pending []*holdfastv1.LogChunk
	since   time.Time // when the first pending chunk was written
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
		if len(l.pending) == 0 {
			l.since = time.Now()
			signal(l.begun)
		}
		n := min(len(data), maxLogBatch)
		l.pending = append(l.pending, &holdfastv1.LogChunk{
			Ts:      c.GetTs(),
			Stream:  c.GetStream(),
			Step:    c.GetStep(),
			Attempt: c.GetAttempt(),
			Data:    data[:n:n],

			Principal: c.GetPrincipal(),
		})
		l.size += n
		data = data[n:]
	}
	if l.size >= maxLogBatch {
		signal(l.full)
	}
}

// take returns the pending chunks, up to room bytes, and whether there are more. The
// caller holds committing.
func (l *runLog) take(room int) (a *internalv1.LogAppend, size int, more bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for n < min(len(l.pending), fsm.MaxChunks) && size+len(l.pending[n].GetData()) <= room {
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
	if len(l.pending) > 0 { // most was written during the commit
		l.since = time.Now()
		signal(l.begun)
	}
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
