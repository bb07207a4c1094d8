package runs

import (
	"context"
	"time"

	"github.com/holdfast-metal/holdfast/executor/task"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// flushLogs commits the logs of runs until the term ends, many runs in one command. A line is
// committed LogFlush after it was written, or sooner. The outcome of an attempt commits all lines
// before it, so an attempt of less than half of LogFlush needs no other command for its log.
func (t *term) flushLogs(ctx context.Context) error {
	var next <-chan time.Time // nil while nothing is pending
	for {
		begun := t.logs.begun
		if next != nil {
			begun = nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-begun:
			next = time.After(t.cfg.LogFlush)
			continue
		case <-next:
		case <-t.logs.full:
		}
		due, oldest := t.logs.due(t.cfg.LogFlush / 2)
		for len(due) > 0 {
			var err error
			if due, err = t.flushBatch(ctx, due); err != nil {
				return err
			}
		}
		if next = nil; !oldest.IsZero() {
			next = time.After(time.Until(oldest.Add(t.cfg.LogFlush)))
		}
	}
}

// due returns the logs with a line of at least that age, or a full batch, and the time of the
// oldest line of the others.
func (s *logSet) due(age time.Duration) (due []*runLog, oldest time.Time) {
	for _, l := range s.all() {
		since, full := l.oldest()
		switch {
		case since.IsZero():
		case full || time.Since(since) >= age:
			due = append(due, l)
		case oldest.IsZero() || since.Before(oldest):
			oldest = since
		}
	}
	return due, oldest
}

// oldest returns the time of the first pending line, or zero, and reports whether a batch is full.
func (l *runLog) oldest() (since time.Time, full bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.pending) == 0 {
		return time.Time{}, false
	}
	return l.since, l.size >= maxLogBatch
}

// flushBatch commits one batch of logs, and returns the logs that have more.
func (t *term) flushBatch(ctx context.Context, logs []*runLog) (rest []*runLog, err error) {
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
	for i, log := range logs {
		if len(appends) == fsm.MaxAppends {
			rest = append(rest, logs[i:]...)
			break
		}
		if !log.committing.TryLock() { // an outcome commits it
			continue
		}
		a, size, more := log.take(room)
		if more {
			rest = append(rest, log)
		}
		if a == nil {
			log.committing.Unlock()
			continue
		}
		batch, appends, room = append(batch, taken{log, a, size}), append(appends, a), room-size
	}
	if len(appends) == 0 {
		return nil, nil
	}
	if err := t.appendLogs(ctx, appends...); err != nil {
		return nil, err
	}
	// failpoint: logs-committed
	for _, b := range batch {
		b.log.committed(b.a, b.size)
	}
	return rest, nil
}

func (t *term) appendLogs(ctx context.Context, appends ...*internalv1.LogAppend) error {
	_, err := task.Propose(ctx, t.proposer, t.epoch, &internalv1.Command{Op: &internalv1.Command_AppendRunLogs{
		AppendRunLogs: &internalv1.AppendRunLogs{Appends: appends}}})
	return err
}
