package runs

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

func TestLogsAreCompressedWhenRunEnds(t *testing.T) {
	l := newLab(t, fake.Config{})
	l.Machine("m-1")
	l.Plan("p", stepOf("s", &holdfastv1.SshCommand{Script: "yes 20000"}))
	l.lead(quick())
	id := l.Start("m-1", "", "p", nil).GetRunId()
	l.Ended(id)
	run := l.Wait(id, "compacted", (*holdfastv1.Run).GetLogCompacted)
	stored := 0
	for _, b := range l.FSM.View().LogBlocks(id) {
		stored += len(b.GetPayload())
		if b.GetCodec() != internalv1.LogBlock_ZSTD {
			t.Errorf("block at %d: got %s", b.GetOffset(), b.GetCodec())
		}
	}
	if out := l.Log(id, "stdout"); strings.Count(out, "y\n") < 20000 {
		t.Errorf("output: got %d lines, want 20000", strings.Count(out, "y\n"))
	}
	if int64(stored)*5 > run.GetLogBytes() {
		t.Errorf("%d bytes of log: got %d stored bytes", run.GetLogBytes(), stored)
	}
	at := int64(0)
	for c := range l.FSM.View().RunLog(id, 0) {
		if c.GetOffset() != at {
			t.Fatalf("got a chunk at %d, want %d", c.GetOffset(), at)
		}
		at += int64(len(c.GetData()))
	}
}

// A log that cannot be compressed must not end the term, because it would end the next one too.
func TestFailedCompressionDoesNotEndTerm(t *testing.T) {
	l := newLab(t, fake.Config{})
	l.Machine("m-1")
	l.Plan("p", stepOf("s", &holdfastv1.SshCommand{Script: "yes 100"}))
	var tries atomic.Int32
	l.Refuse = func(c *internalv1.Command) *fsm.Error {
		if c.GetCompactRunLog() == nil {
			return nil
		}
		tries.Add(1)
		return &fsm.Error{Code: fsm.InvalidArgument, Reason: "LOG_MISMATCH", Message: "no"}
	}
	ld := l.lead(quick())
	for range 2 {
		if run := l.Ended(l.Start("m-1", "", "p", nil).GetRunId()); run.GetPhase() != holdfastv1.Run_SUCCEEDED {
			t.Fatalf("run: %v", run)
		}
	}
	waitFor(t, func() bool { return tries.Load() == 2 })
	select {
	case <-ld.Done:
		t.Errorf("term: got end with %v", ld.Err)
	default:
	}
}

func TestLogIsCappedWithMarker(t *testing.T) {
	l := newLab(t, fake.Config{})
	l.Machine("m-1")
	l.Plan("p", stepOf("s", &holdfastv1.SshCommand{Script: strings.Repeat("yes 100000\n", 8)}))
	l.lead(quick())
	id := l.Start("m-1", "", "p", nil).GetRunId()
	run := l.Ended(id)
	if run.GetPhase() != holdfastv1.Run_SUCCEEDED || !run.GetLogTruncated() {
		t.Fatalf("got phase %s, truncated %t with %d bytes, want SUCCEEDED and truncated", run.GetPhase(),
			run.GetLogTruncated(), run.GetLogBytes())
	}
	var last *holdfastv1.LogChunk
	total := 0
	for c := range l.FSM.View().RunLog(id, 0) {
		last, total = c, total+len(c.GetData())
	}
	if !last.GetTruncated() || total > fsm.MaxRunLog+200 {
		t.Errorf("last chunk: got %v of %d bytes, want the marker at the cap", last.GetTruncated(), total)
	}
}

// The output of a command is complete and without repetitions, however often the leader changes.
func TestOutputSurvivesLeaders(t *testing.T) {
	t.Parallel()
	l := newLab(t, fake.Config{})
	l.Machine("m-1")
	var script strings.Builder
	for range 40 {
		script.WriteString("yes 50\nsleep 0.01\n")
	}
	l.Plan("p", stepOf("s", &holdfastv1.SshCommand{Script: script.String()}))
	id := l.Start("m-1", "", "p", nil).GetRunId()
	for range 4 {
		ld := l.lead(quick())
		size := func(r *holdfastv1.Run) int64 { return r.GetLogBytes() }
		r, _ := l.FSM.View().Run(id)
		before := size(r)
		l.Wait(id, "logging", func(r *holdfastv1.Run) bool { return size(r) > before+200 || fsm.Ended(r) })
		ld.Kill()
		<-ld.Done
	}
	l.lead(quick())
	if run := l.Ended(id); run.GetPhase() != holdfastv1.Run_SUCCEEDED {
		t.Fatalf("got phase %s: %v", run.GetPhase(), run.GetError())
	}
	if got, want := strings.Count(l.Log(id, "stdout"), "y\n"), 40*50; got != want {
		t.Errorf("output: got %d lines, want %d", got, want)
	}
}

func TestRetryAfterGrowsAndIsBounded(t *testing.T) {
	for attempt := int32(1); attempt < 40; attempt++ {
		d := retryAfter(time.Second, time.Minute, attempt)
		most := min(time.Minute, time.Second<<(attempt-1))
		if attempt > 20 {
			most = time.Minute
		}
		if d < most/2 || d > most {
			t.Errorf("delay after attempt %d: got %s, want %s to %s", attempt, d, most/2, most)
		}
	}
}
