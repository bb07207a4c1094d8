package runs

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/fake"
	"github.com/holdfast-metal/holdfast/providers/ironic"
	"github.com/holdfast-metal/holdfast/providers/ironic/ironictest"
)

// newIronicLab returns a lab in which machine m-1 is a node of a stateful Ironic.
func newIronicLab(t *testing.T, n ironictest.Node) (*lab, *ironictest.Server) {
	t.Helper()
	l := newLab(t, fake.Config{})
	s := ironictest.New(t, ironictest.Config{Step: 30 * time.Millisecond})
	n.Name = "m-1"
	s.Add(n)
	p, err := ironic.New(ironic.Config{Endpoint: s.URL, SettleTime: ironic.Duration(50 * time.Millisecond),
		Images: map[string]ironic.Image{"default": {Source: "http://192.0.2.1/default.qcow2"}}}, ironic.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	l.Set = providers.SetOf(map[string]providers.Provider{"fake": p})
	l.Machine("m-1")
	return l, s
}

// ironicAsked lists the requests to Ironic, without those for notes on the node.
func ironicAsked(s *ironictest.Server) []string {
	var asked []string
	for _, a := range s.Asked() {
		if a != "m-1 patch" {
			asked = append(asked, strings.TrimPrefix(a, "m-1 "))
		}
	}
	return asked
}

// Each effect of an install happens once, even if the leader dies after any of them.
func TestInstallInSeveralEffects(t *testing.T) {
	t.Parallel()
	want := []string{"provision: deleted", "provision: manage", "provision: clean", "provision: provide",
		"provision: active"}
	for kills := range len(want) + 1 { // the leader dies after this number of effects
		t.Run("", func(t *testing.T) {
			t.Parallel()
			l, s := newIronicLab(t, ironictest.Node{State: "active"})
			l.Plan("p", stepOf("s", &holdfastv1.RepaveImage{Image: "default", Wipe: true}))
			first := l.lead(quick())
			id := l.Start("m-1", "", "p", nil).GetRunId()
			if kills > 0 {
				waitFor(t, func() bool { return len(ironicAsked(s)) >= kills })
				first.Kill()
				<-first.Done
				l.lead(quick())
			}
			run := l.Ended(id)
			if run.GetPhase() != holdfastv1.Run_SUCCEEDED || len(run.GetSteps()[0].GetAttempts()) != 1 {
				t.Errorf("run: got %s after %d attempts, want SUCCEEDED in one\n%s", run.GetPhase(),
					len(run.GetSteps()[0].GetAttempts()), l.Log(id, "system"))
			}
			if diff := cmp.Diff(want, ironicAsked(s)); diff != "" {
				t.Errorf("requests to Ironic (-want +got):\n%s\n%s", diff, l.Log(id, "system"))
			}
			if log := l.Log(id, "system"); kills == 0 &&
				!strings.Contains(log, "ask Ironic to bring the node from manageable to available (provide)") {
				t.Errorf("log: got no effects:\n%s", log)
			}
		})
	}
}

// The install waits for a node that is locked for a while.
func TestInstallOfLockedNode(t *testing.T) {
	t.Parallel()
	l, s := newIronicLab(t, ironictest.Node{})
	l.Plan("p", stepOf("s", &holdfastv1.RepaveImage{Image: "default"}))
	s.Change("m-1", func(n *ironictest.Node) { n.Locked = "conductor-9" })
	free := time.AfterFunc(1500*time.Millisecond, func() { s.Change("m-1", func(n *ironictest.Node) { n.Locked = "" }) })
	defer free.Stop()
	l.lead(quick())
	run := l.Ended(l.Start("m-1", "", "p", nil).GetRunId())
	if run.GetPhase() != holdfastv1.Run_SUCCEEDED || len(run.GetSteps()[0].GetAttempts()) != 1 {
		t.Errorf("run: got %s after %d attempts (%v), want SUCCEEDED in one", run.GetPhase(),
			len(run.GetSteps()[0].GetAttempts()), run.GetError())
	}
	if diff := cmp.Diff([]string{"provision: active"}, ironicAsked(s)); diff != "" {
		t.Errorf("requests to Ironic (-want +got):\n%s", diff)
	}
}

// The power is switched off, observed, switched on and observed. If Ironic reports a
// failed press, its text is the error of the run.
func TestPowerThroughIronic(t *testing.T) {
	t.Parallel()
	l, s := newIronicLab(t, ironictest.Node{State: "active"})
	l.Plan("p", stepOf("s", &holdfastv1.Reboot{Mode: "bmc"}))
	l.lead(quick())
	if run := l.Ended(l.Start("m-1", "", "p", nil).GetRunId()); run.GetPhase() != holdfastv1.Run_SUCCEEDED {
		t.Errorf("run: got %s: %v", run.GetPhase(), run.GetError())
	}
	if diff := cmp.Diff([]string{"power: soft power off", "power: power on"}, ironicAsked(s)); diff != "" {
		t.Errorf("requests to Ironic (-want +got):\n%s", diff)
	}
	for says, want := range map[string]struct {
		class    providers.Class
		attempts int
		presses  int
	}{
		// Soft and hard presses; refused logins are not retried often.
		"HTTP POST https://b returned code 401": {providers.Auth, 2, 4},
		"Failed to set power: BMC is busy":      {providers.Failed, 3, 6},
	} {
		before := len(ironicAsked(s))
		s.Set(func(f *ironictest.Faults) { f.FailPower = says })
		run := l.Ended(l.Start("m-1", "", "p", nil).GetRunId())
		if got := run.GetError(); run.GetPhase() != holdfastv1.Run_FAILED || !strings.Contains(got.GetMessage(), says) ||
			got.GetErrorClass() != string(want.class) {
			t.Errorf("run: got %s with %v, want FAILED with Ironic's text, of class %s", run.GetPhase(), got, want.class)
		}
		if n, pressed := len(run.GetSteps()[0].GetAttempts()), len(ironicAsked(s))-before; n != want.attempts ||
			pressed != want.presses {
			t.Errorf("%s: got %d attempts and %d presses, want %d and %d", says, n, pressed, want.attempts, want.presses)
		}
	}
}
