package runs

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

// A leader dies right after the first lines of a command are recorded. The next one continues from
// there, so that each line is recorded once.
func TestOutputGoesOnWhereTheRecordEnds(t *testing.T) {
	t.Parallel()
	l := newLab(t, fake.Config{})
	l.Machine("m-1")
	l.Plan("p", stepOf("s", &holdfastv1.SshCommand{Script: "echo one\necho two\nsleep 1\necho three\n"}))
	killed := false
	l.Refuse = func(cmd *internalv1.Command) *fsm.Error { // under the lock of Apply
		for _, a := range cmd.GetAppendRunLogs().GetAppends() {
			for _, c := range a.GetChunks() {
				if c.GetStream() == "stdout" && bytes.Contains(c.GetData(), []byte("one\n")) && !killed {
					killed = true
					l.KillApplying(cmd.GetEpoch()) // this command is committed, but no later one
				}
			}
		}
		return nil
	}
	first := l.lead(quick())
	id := l.Start("m-1", "", "p", nil).GetRunId()
	<-first.Done
	if got := l.Log(id, "stdout"); got == "" {
		t.Fatal("the first leader recorded nothing: nothing was tested")
	}
	l.lead(quick())
	run := l.Ended(id)
	if run.GetPhase() != holdfastv1.Run_SUCCEEDED || len(run.GetSteps()[0].GetAttempts()) != 1 {
		t.Errorf("run: got %s after %d attempts (%v), want SUCCEEDED in one", run.GetPhase(),
			len(run.GetSteps()[0].GetAttempts()), run.GetError())
	}
	if got, want := l.Log(id, "stdout"), "one\ntwo\nthree\n"; got != want {
		t.Errorf("output: got %q, want %q, each line once", got, want)
	}
}

// backlogged is a host that returns the output of a killed command in pieces.
type backlogged struct {
	*fake.Provider
	pieces []string
}

func (p *backlogged) CommandStatus(
	ctx context.Context, m providers.Machine, token string, offset int64,
) (providers.CommandStatus, error) {
	st, err := p.Provider.CommandStatus(ctx, m, token, offset)
	if err != nil || st.State == providers.WorkNone {
		return st, err
	}
	st = providers.CommandStatus{State: providers.WorkFailed, Reason: "the host was restarted", Next: offset}
	at := int64(0)
	for _, piece := range p.pieces {
		if at == offset {
			st.Output, st.Next = []providers.Output{{Stream: "stdout", Data: []byte(piece)}}, offset+int64(len(piece))
			break
		}
		at += int64(len(piece))
	}
	return st, nil
}

// The output of a killed command is recorded completely. The last lines have the reason.
func TestOutputOfKilledCommand(t *testing.T) {
	t.Parallel()
	l := newLab(t, fake.Config{})
	l.Set = providers.SetOf(map[string]providers.Provider{"fake": &backlogged{fake.New(l.Fleet),
		[]string{"one\n", "two\n", "why it ended\n"}}})
	l.Machine("m-1")
	s := stepOf("s", &holdfastv1.SshCommand{Command: "true"})
	s.MaxRetries = new(int32)
	l.Plan("p", s)
	l.lead(quick())
	run := l.Ended(l.Start("m-1", "", "p", nil).GetRunId())
	if run.GetPhase() != holdfastv1.Run_FAILED || !strings.Contains(run.GetError().GetMessage(),
		"the host was restarted") {
		t.Errorf("run: got %s: %v", run.GetPhase(), run.GetError())
	}
	if got, want := l.Log(run.GetRunId(), "stdout"), "one\ntwo\nwhy it ended\n"; got != want {
		t.Errorf("recorded stdout: got %q, want %q", got, want)
	}
}
