package runs

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

// A host that boots for longer than the settle time is on but does not answer. The next leader must
// wait for it, and neither press again nor fail the attempt.
func TestAdoptWhileHostBoots(t *testing.T) {
	for _, k := range []struct {
		name string
		kind proto.Message
		want map[string]int // destructive effects
	}{
		{"bmc", &holdfastv1.Reboot{Mode: "bmc"}, map[string]int{"s/1/power_off": 1}},
		{"inband", &holdfastv1.Reboot{Mode: "inband"}, map[string]int{"s/1/reboot": 1}},
	} {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, fake.Config{PowerTime: fake.Duration(10 * time.Millisecond),
					BootTime: fake.Duration(2 * time.Second)})
				l.Machine("m-1")
				l.Plan("p", stepOf("s", k.kind))
				first := l.lead(quick())
				id := l.Start("m-1", "", "p", nil).GetRunId()
				l.Wait(id, "under way", func(r *holdfastv1.Run) bool { return r.GetPhase() == holdfastv1.Run_RUNNING })
				deadline, tick := time.After(15*time.Second), time.NewTicker(time.Millisecond)
				defer tick.Stop()
				for s, _ := l.Fleet.State("m-1"); s.Reachable || s.Power != providers.PowerOn; s, _ = l.Fleet.State("m-1") {
					select {
					case <-tick.C:
					case <-deadline:
						t.Fatalf("wait for the boot of the host: got %+v", s)
					}
				}
				first.Kill()
				<-first.Done
				l.lead(quick())
				run := l.Ended(id)
				if run.GetPhase() != holdfastv1.Run_SUCCEEDED || len(run.GetSteps()[0].GetAttempts()) != 1 {
					t.Errorf("run: got %s after %d attempts (%v), want SUCCEEDED in one\n%s", run.GetPhase(),
						len(run.GetSteps()[0].GetAttempts()), run.GetError(), l.Log(id, "system"))
				}
				if diff := cmp.Diff(k.want, l.Destructive(id)); diff != "" {
					t.Errorf("destructive effects (-want +got):\n%s\n%s", diff, l.Log(id, "system"))
				}
			})
		})
	}
}

// A host whose disk was wiped has no operating system to shut down.
func TestWipedHostIsPoweredOffHard(t *testing.T) {
	l := newLab(t, fake.Config{InstallTime: fake.Duration(20 * time.Millisecond)})
	l.Machine("m-1")
	l.Plan("p", stepOf("s", &holdfastv1.RmaAction{Wipe: true}))
	l.lead(quick())
	id := l.Start("m-1", "", "p", nil).GetRunId()
	if run := l.Ended(id); run.GetPhase() != holdfastv1.Run_SUCCEEDED {
		t.Fatalf("got phase %s: %v", run.GetPhase(), run.GetError())
	}
	var got []string
	for _, e := range l.Fleet.Effects("", id, 0) {
		got = append(got, e.Effect+" "+e.Detail)
	}
	if diff := cmp.Diff([]string{"wipe ", "power_off hard-off", "identify true"}, got); diff != "" {
		t.Errorf("effects (-want +got):\n%s", diff)
	}
}
