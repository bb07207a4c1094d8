package runs

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

// TestLeadersDoNotProlongAttempt changes the leader every 5 s, while an attempt waits for something
// that never happens. The attempt must end all the same, with its reason, after its timeout and the
// allowance for new leaders. So must one that is canceled.
func TestLeadersDoNotProlongAttempt(t *testing.T) {
	const every, limit, allowance = 5 * time.Second, time.Minute, 5 * time.Minute
	for name, tt := range map[string]struct {
		kind   proto.Message
		cancel bool
	}{
		"install":           {&holdfastv1.RepaveImage{Image: "debian"}, false},
		"power":             {&holdfastv1.Power{Action: "off"}, false},
		"power, canceled":   {&holdfastv1.Power{Action: "off"}, true},
		"install, canceled": {&holdfastv1.RepaveImage{Image: "debian"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				// A press takes effect so late that no leader lives long enough to wait for it.
				l := newLab(t, fake.Config{InstallTime: fake.Duration(24 * time.Hour), PowerTime: fake.Duration(7 * time.Minute)})
				l.Machine("m-1")
				s := stepOf("s", tt.kind)
				s.TimeoutSeconds, s.MaxRetries = int32(limit/time.Second), proto.Int32(0)
				l.Plan("p", s)
				id, began := l.Start("m-1", "", "p", nil).GetRunId(), time.Now()
				var run *holdfastv1.Run
				const settle = 14 * time.Minute
				most := limit + allowance + settle
				for leaders := 0; !fsm.Ended(run) && time.Since(began) <= most+time.Minute; leaders++ {
					ld := l.lead(Config{})
					time.Sleep(every) // sleep: fake clock
					ld.Kill()
					<-ld.Done
					if tt.cancel && leaders == 2 {
						l.cancel(id)
					}
					run, _ = l.FSM.View().Run(id)
				}
				took := run.GetFinishedAt().AsTime().Sub(began)
				switch {
				case !fsm.Ended(run):
					t.Fatalf("after %v: got a run that continues: %v", time.Since(began), run)
				case tt.cancel:
					if run.GetPhase() != holdfastv1.Run_CANCELED {
						t.Errorf("got %s: %v", run.GetPhase(), run.GetError())
					}
				case run.GetPhase() != holdfastv1.Run_FAILED || !strings.Contains(run.GetError().GetMessage(), "leaders in turn"):
					t.Errorf("got %s: %v, want FAILED with the reason", run.GetPhase(), run.GetError())
				case took < limit+allowance:
					t.Errorf("ended after %v, want %v", took, limit+allowance)
				}
			})
		})
	}
}
