package executor

import (
	"bytes"
	"testing"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

// A leader dies right after the first lines of a command are on record. The next one goes on where the record ends: each line is there once.
func TestOutputGoesOnWhereTheRecordEnds(t *testing.T) {
	t.Parallel()
	l := newLab(t, fake.Config{})
	l.machine("m-1")
	l.plan("p", step("s", &holdfastv1.SshCommand{Script: "echo one\necho two\nsleep 1\necho three\n"}))
	killed := false
	l.refuse = func(cmd *internalv1.Command) *fsm.Error { // under the lock of Apply
		for _, a := range cmd.GetAppendRunLogs().GetAppends() {
			for _, c := range a.GetChunks() {
				if c.GetStream() == "stdout" && bytes.Contains(c.GetData(), []byte("one\n")) && !killed {
					killed, l.dead[cmd.GetEpoch()] = true, true // this one is committed, and nothing after it
				}
			}
		}
		return nil
	}
	first := l.lead(quick())
	id := l.start("m-1", "", "p", nil).GetRunId()
	<-first.done
	if got := l.log(id, "stdout"); got == "" {
		t.Fatal("the first leader has nothing on record: nothing is tested")
	}
	l.lead(quick())
	run := l.ended(id)
	if run.GetPhase() != holdfastv1.Run_SUCCEEDED || len(run.GetSteps()[0].GetAttempts()) != 1 {
		t.Errorf("run is %s after %d attempts (%v), want SUCCEEDED in one", run.GetPhase(), len(run.GetSteps()[0].GetAttempts()), run.GetError())
	}
	if got, want := l.log(id, "stdout"), "one\ntwo\nthree\n"; got != want {
		t.Errorf("output is %q, want %q: each line once", got, want)
	}
}
