package runs

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

// The logs of short runs are committed with their outcomes, whenever they begin.
func TestLogsOfShortRunsNeedNoCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, fake.Config{Faults: fake.Faults{Latency: fake.Duration(40 * time.Millisecond)}})
		var appends atomic.Int32
		l.Commit = func(cmd *internalv1.Command) {
			if cmd.GetAppendRunLogs() != nil {
				appends.Add(1)
			}
		}
		cfg := quick()
		cfg.LogFlush = 200 * time.Millisecond
		ld := l.lead(cfg)
		l.Plan("p", stepOf("first", &holdfastv1.Inspect{}), stepOf("last", &holdfastv1.Inspect{}))
		var last string
		for i := range 20 {
			m := fmt.Sprint("m-", i)
			l.Machine(m)
			last = l.Start(m, "", "p", nil).GetRunId()
			time.Sleep(30 * time.Millisecond) // sleep: fake clock
		}
		l.Ended(last)
		if got := appends.Load(); got != 0 {
			t.Errorf("got %d commands with logs only, want none", got)
		}
		ld.Stop()
	})
}

// Each line of a long attempt is committed LogFlush after it was written, or sooner, also if it was
// written during the commit of others.
func TestLinesAreCommittedInTime(t *testing.T) {
	const flush, commit = 200 * time.Millisecond, 70 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, fake.Config{})
		tm := &term{Executor: New(Config{LogFlush: flush}, l, l.FSM, l.Set), logs: newLogSet()}
		latest := map[string]time.Duration{} // age of the oldest line at its commit
		l.Commit = func(cmd *internalv1.Command) {
			for _, a := range cmd.GetAppendRunLogs().GetAppends() {
				age := time.Since(a.GetChunks()[0].GetTs().AsTime())
				latest[a.GetRunId()] = max(latest[a.GetRunId()], age)
			}
			if cmd.GetAppendRunLogs() != nil {
				time.Sleep(commit) // sleep: fake clock
			}
		}
		ended := make(chan error)
		ctx, stop := context.WithCancel(t.Context())
		go func() { ended <- tm.flushLogs(ctx) }()
		l.Plan("p", stepOf("s", &holdfastv1.Inspect{}))
		var logs []*runLog
		for i := range 3 {
			m := fmt.Sprint("m-", i)
			l.Machine(m)
			logs = append(logs, tm.logs.add(l.Start(m, "", "p", nil).GetRunId(), 0))
		}
		written := 0
		for i := range 300 {
			for j, log := range logs {
				if i/100 != 1 && i%(7+5*j) == 0 { // with a pause
					log.write(&holdfastv1.LogChunk{Ts: at(time.Now()), Data: []byte("x")})
					written++
				}
			}
			time.Sleep(13 * time.Millisecond) // sleep: fake clock
		}
		time.Sleep(2 * flush) // sleep: fake clock
		stored := 0
		for _, log := range logs {
			run, _ := l.FSM.View().Run(log.run)
			stored += int(run.GetLogBytes())
			if got := latest[log.run]; got > flush+commit {
				t.Errorf("run %s: got a line committed after %s, want at most %s and the commit before it", log.run, got, flush)
			}
		}
		if stored != written {
			t.Errorf("got %d committed lines, want %d", stored, written)
		}
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("flush: got error %v, want %v", err, context.Canceled)
		}
	})
}

// A line that is written during the commit of the line before it is committed, too.
func TestLineDuringACommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, fake.Config{})
		tm := &term{Executor: New(Config{LogFlush: time.Second}, l, l.FSM, l.Set), logs: newLogSet()}
		l.Plan("p", stepOf("s", &holdfastv1.Inspect{}))
		l.Machine("m-1")
		log := tm.logs.add(l.Start("m-1", "", "p", nil).GetRunId(), 0)
		write := func() { log.write(&holdfastv1.LogChunk{Ts: at(time.Now()), Data: []byte("x")}) }
		l.Commit = func(cmd *internalv1.Command) {
			if a := cmd.GetAppendRunLogs().GetAppends(); len(a) > 0 && a[0].GetOffset() == 0 {
				write()
			}
		}
		ended := make(chan error)
		ctx, stop := context.WithCancel(t.Context())
		go func() { ended <- tm.flushLogs(ctx) }()
		write()
		time.Sleep(3 * time.Second) // sleep: fake clock
		if run, _ := l.FSM.View().Run(log.run); run.GetLogBytes() != 2 {
			t.Errorf("got %d committed lines, want 2", run.GetLogBytes())
		}
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("flush: got error %v, want %v", err, context.Canceled)
		}
	})
}
