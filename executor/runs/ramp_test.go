package runs

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

// A plan that installs an image and then fails reaches at most 10 machines, even under a second
// leader. With a working image all runs succeed.
func TestRamp(t *testing.T) {
	t.Parallel()
	const machines = 40
	l := newLab(t, fake.Config{})
	check := stepOf("check", &holdfastv1.SshCommand{Command: "fail"})
	check.MaxRetries = proto.Int32(0)
	l.Plan("bad", stepOf("install", &holdfastv1.RepaveImage{}), check)
	l.Plan("good", stepOf("install", &holdfastv1.RepaveImage{}))
	var bad, good []*holdfastv1.Run
	for i := range machines {
		for plan, runs := range map[string]*[]*holdfastv1.Run{"bad": &bad, "good": &good} {
			m := fmt.Sprint(plan, "-", i)
			l.Machine(m)
			*runs = append(*runs, l.Start(m, "", plan, nil))
		}
	}
	first := l.lead(quick())
	l.Ended(bad[0].GetRunId())
	first.Kill()
	l.lead(quick())
	for _, r := range good {
		if run := l.Ended(r.GetRunId()); run.GetPhase() != holdfastv1.Run_SUCCEEDED {
			t.Errorf("run of the working plan: got %v, want SUCCEEDED", run)
		}
	}
	l.Until(func(v *fsm.View) bool {
		p, _ := v.Plan("bad")
		return p.GetBrake() != nil
	})
	written := 0
	for _, r := range bad {
		if run, _ := l.FSM.View().Run(r.GetRunId()); run.GetPhase() != holdfastv1.Run_PENDING {
			written++
		}
	}
	if written > 10 {
		t.Errorf("got %d machines reached by the failing plan, want at most 10", written)
	}
}
