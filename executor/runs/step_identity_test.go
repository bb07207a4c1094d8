package runs

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

// doubt makes m-1 a machine that may be another one: a host with another serial number reports its
// MAC address.
func (l *lab) doubt() {
	const mac = "02:00:00:00:00:01"
	l.Must(&internalv1.Command{Op: &internalv1.Command_UpdateMachine{UpdateMachine: &internalv1.UpdateMachine{
		Machine: &holdfastv1.Machine{MachineId: "m-1", Spec: &holdfastv1.MachineSpec{Serial: "S1",
			MacAddresses: []string{mac}}}, Paths: []string{"spec.serial", "spec.mac_addresses"}}}})
	report := &internalv1.ReportNode{RunId: "run-x", Report: &holdfastv1.ReportNodeRequest{MacAddress: mac,
		Facts: &holdfastv1.NodeRecord{Hostname: "h", SerialNumber: "S2"}}}
	if _, err := l.Apply(context.Background(), &internalv1.Command{
		Op: &internalv1.Command_ReportNode{ReportNode: report}}); err == nil {
		l.T.Error("the report of another host: got no refusal")
	}
}

// TestConflictStopsOpenAttempt lets a conflict begin during an attempt that erases disks. Before
// the disks are changed the attempt stops; later it continues, and says so.
func TestConflictStopsOpenAttempt(t *testing.T) {
	erase := &holdfastv1.RmaAction{Wipe: true}
	for name, tt := range map[string]struct {
		kind   proto.Message
		at     time.Duration // of the conflict, after the intent
		adopts bool          // by a later leader, which sees the conflict
		stops  bool
	}{
		"install, before the start":        {&holdfastv1.RepaveImage{Image: "debian"}, 0, false, true},
		"install, while it boots":          {&holdfastv1.RepaveImage{Image: "debian"}, 5 * time.Second, false, true},
		"install, while it boots, adopted": {&holdfastv1.RepaveImage{Image: "debian"}, 5 * time.Second, true, true},
		"install, while it writes":         {&holdfastv1.RepaveImage{Image: "debian"}, time.Minute, false, false},
		"install, writes, adopted":         {&holdfastv1.RepaveImage{Image: "debian"}, time.Minute, true, false},
		"wipe, before the start":           {erase, 0, false, true},
		"wipe, while it boots":             {erase, 5 * time.Second, false, true},
		"wipe, while it wipes":             {erase, time.Minute, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, fake.Config{InstallTime: fake.Duration(100 * time.Second)})
				l.Machine("m-1")
				s := stepOf("s", tt.kind)
				s.TimeoutSeconds = 600
				l.Plan("p", s)
				cfg, begun := Config{}, make(chan struct{}, 10)
				cfg.Boundary = func(b Boundary, _ string) {
					if b == AfterIntent {
						if tt.at == 0 {
							l.doubt()
						}
						begun <- struct{}{}
					}
				}
				ld := l.lead(cfg)
				id := l.Start("m-1", "", "p", nil).GetRunId()
				<-begun
				if tt.at > 0 {
					time.Sleep(tt.at) // sleep: fake clock
					if tt.adopts {
						ld.Kill()
						<-ld.Done
					}
					l.doubt()
					if tt.adopts {
						ld = l.lead(cfg)
					}
				}
				run := l.Ended(id)
				ld.Stop()
				log := l.Log(id, "system")
				seen := run.GetSteps()[0].GetAttempts()[0].GetEvidenceAfter()["identity_conflict"]
				if tt.stops {
					if e := run.GetError(); run.GetPhase() != holdfastv1.Run_FAILED || e.GetReason() != "IdentityConflict" ||
						!strings.Contains(e.GetMessage(), "S2") || len(run.GetSteps()[0].GetAttempts()) != 1 {
						t.Errorf("run: got %s, %v, want FAILED with the conflict\n%s", run.GetPhase(), e, log)
					}
					return
				}
				if run.GetPhase() != holdfastv1.Run_SUCCEEDED || !strings.Contains(seen, "S2") ||
					strings.Count(log, "may be another one") != 1 {
					t.Errorf("run: got %s (%v), evidence %q, want SUCCEEDED and the conflict\n%s", run.GetPhase(),
						run.GetError(), seen, log)
				}
			})
		})
	}
}
