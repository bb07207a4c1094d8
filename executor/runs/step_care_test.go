package runs

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

// did lists the effects of a run at the fleet, with details.
func (l *lab) did(run string) []string {
	var all []string
	for _, e := range l.Fleet.Effects("", run, 0) {
		all = append(all, strings.TrimSpace(e.Effect+" "+e.Detail))
	}
	return all
}

const iso = "https://images.example/rescue.iso?sig=hush"

// careCases returns the steps other than power and boot, with their expected effects.
func careCases() []struct {
	name string
	kind proto.Message
	want []string
} {
	return []struct {
		name string
		kind proto.Message
		want []string
	}{
		{"identify", &holdfastv1.Identify{}, []string{"identify true"}},
		{"identify-for", &holdfastv1.Identify{ForSeconds: 1}, []string{"identify true", "identify false"}},
		{"events", &holdfastv1.ReadEventLog{}, nil},
		{"clear-events", &holdfastv1.ClearEventLog{}, []string{"clear_log 1 entries"}},
		{"reset-bmc", &holdfastv1.ResetBmc{}, []string{"bmc_reset"}},
		{"media", &holdfastv1.Media{Url: iso}, []string{"media_insert " + iso}},
		{"inventory", &holdfastv1.ReadInventory{}, nil},
	}
}

func TestCareSteps(t *testing.T) {
	for _, k := range careCases() {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, fake.Config{ResetTime: fake.Duration(50 * time.Millisecond)})
			l.Machine("m-1")
			l.Plan("p", stepOf("s", k.kind))
			l.lead(quick())
			id := l.Start("m-1", "", "p", nil).GetRunId()
			run := l.Ended(id)
			if run.GetPhase() != holdfastv1.Run_SUCCEEDED {
				t.Fatalf("run: got %s: %v\n%s", run.GetPhase(), run.GetError(), l.Log(id, "system"))
			}
			if diff := cmp.Diff(k.want, l.did(id)); diff != "" {
				t.Errorf("effects (-want +got):\n%s", diff)
			}
			if log := l.Log(id, "system") + run.String(); strings.Contains(log, "hush") &&
				!strings.Contains(k.name, "media") || strings.Contains(l.Log(id, "system"), "hush") {
				t.Errorf("log: got the query of a URL:\n%s", log)
			}
		})
	}
}

// If a leader dies between any two durable effects of these steps, the next one completes the run
// in the same attempt, without a repeated effect.
func TestCareStepsAreAdopted(t *testing.T) {
	for _, k := range careCases() {
		for _, b := range Boundaries() {
			t.Run(k.name+"/"+string(b), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					l := newLab(t, fake.Config{ResetTime: fake.Duration(3 * time.Second)}) // longer than a failover
					l.Machine("m-1")
					l.Plan("p", stepOf("s", k.kind))
					cfg, dead := quick(), make(chan struct{})
					var first *tenure
					var once sync.Once
					ready := make(chan struct{})
					cfg.Boundary = func(at Boundary, _ string) {
						if at == b {
							once.Do(func() {
								<-ready
								first.Kill()
								close(dead)
							})
						}
					}
					first = l.lead(cfg)
					close(ready)
					id := l.Start("m-1", "", "p", nil).GetRunId()
					<-dead
					<-first.Done
					l.lead(quick())
					run := l.Ended(id)
					if run.GetPhase() != holdfastv1.Run_SUCCEEDED || len(run.GetSteps()[0].GetAttempts()) != 1 {
						t.Fatalf("run: got %s after %d attempts (%v), want SUCCEEDED in one\n%s", run.GetPhase(),
							len(run.GetSteps()[0].GetAttempts()), run.GetError(), l.Log(id, "system"))
					}
					if diff := cmp.Diff(k.want, l.did(id)); diff != "" {
						t.Errorf("effects (-want +got):\n%s\n%s", diff, l.Log(id, "system"))
					}
					if n := strings.Count(l.Log(id, "events"), "Log area reset/cleared"); strings.Contains(k.name, "events") &&
						n > 1 {
						t.Errorf("log of the run: got the event log entry %d times, want once", n)
					}
				})
			})
		}
	}
}

// The event log is recorded before it is cleared.
func TestEventLogIsRecordedBeforeClear(t *testing.T) {
	l := newLab(t, fake.Config{})
	l.Machine("m-1")
	l.Plan("p", stepOf("s", &holdfastv1.ClearEventLog{}))
	kept := true
	cfg := quick()
	cfg.LogFlush = time.Hour
	cfg.Boundary = func(b Boundary, _ string) {
		if b == AfterEffect {
			for r := range l.FSM.View().ActiveRuns() {
				kept = strings.Contains(l.Log(r.GetRunId(), "events"), "Log area reset/cleared")
			}
		}
	}
	l.lead(cfg)
	run := l.Ended(l.Start("m-1", "", "p", nil).GetRunId())
	if run.GetPhase() != holdfastv1.Run_SUCCEEDED || !kept {
		t.Errorf("run: got %s, entries recorded before the clear: %v", run.GetPhase(), kept)
	}
}

func TestInventoryIsRecorded(t *testing.T) {
	l := newLab(t, fake.Config{})
	l.Must(&internalv1.Command{Op: &internalv1.Command_RegisterMachine{RegisterMachine: &internalv1.RegisterMachine{
		Machine: &holdfastv1.Machine{MachineId: "m-1", Spec: &holdfastv1.MachineSpec{Serial: "SN-DECLARED",
			MacAddresses: []string{"aa:bb:cc:dd:ee:ff"}}}}}})
	l.lead(quick())
	run := l.Ended(l.Start("m-1", "", "plan/inventory", nil).GetRunId())
	h := l.FSM.View().Hardware("m-1")
	if h.GetSource() != "bmc" || h.GetRunId() != run.GetRunId() || h.GetMemoryBytes() != 128<<30 ||
		len(h.GetParts()) != 10 {
		t.Errorf("got hardware %v", h)
	}
	msg := run.GetSteps()[0].GetMessage()
	for _, want := range []string{"read 2 CPUs, 128 GiB of memory, 2 disks, 2 network ports", "declared is SN-DECLARED",
		"no network port with the declared MAC address aa:bb:cc:dd:ee:ff"} {
		if !strings.Contains(msg, want) {
			t.Errorf("message: got %q, want %q in it", msg, want)
		}
	}
	m, _ := l.FSM.View().Machine("m-1")
	if got := m.GetSpec().GetSerial(); got != "SN-DECLARED" {
		t.Errorf("declared serial number: got %q", got)
	}
}

// An effect that the BMC refuses or ignores does not count.
func TestCareStepsFail(t *testing.T) {
	for _, k := range []struct {
		name   string
		kind   proto.Message
		params map[string]string
		fault  fake.Faults
		want   string
	}{
		{"light that stays dark", &holdfastv1.Identify{}, nil, fake.Faults{Lie: []string{"identify"}},
			"waiting for the light to be on"},
		{"log that stays", &holdfastv1.ClearEventLog{}, nil, fake.Faults{Lie: []string{"clear_log"}},
			"waiting for the event log to be cleared"},
		{"BMC that stays", &holdfastv1.ResetBmc{}, nil, fake.Faults{Lie: []string{"bmc_reset"}}, "did not go away"},
		{"drive that stays empty", &holdfastv1.Media{Url: iso}, nil, fake.Faults{Lie: []string{"media_insert"}},
			"waiting for the virtual drive to be loaded"},
		{"URL of a denied network", &holdfastv1.Media{}, map[string]string{"url": "http://169.254.169.254/x.iso"},
			fake.Faults{}, "the URL is on a denied network"},
	} {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, fake.Config{Faults: k.fault})
				l.Machine("m-1")
				s, none := stepOf("s", k.kind), int32(0)
				s.MaxRetries, s.TimeoutSeconds = &none, 1
				l.Plan("p", s)
				cfg := quick()
				cfg.BMCGoes = 100 * time.Millisecond
				cfg.DenyURL = func(url string) error {
					if strings.Contains(url, "169.254.169.254") {
						return errors.New("is on a denied network")
					}
					return nil
				}
				l.lead(cfg)
				run := l.Ended(l.Start("m-1", "", "p", k.params).GetRunId())
				if run.GetPhase() != holdfastv1.Run_FAILED || !strings.Contains(run.GetError().GetMessage(), k.want) {
					t.Errorf("run: got %s: %v, want FAILED with %q", run.GetPhase(), run.GetError(), k.want)
				}
			})
		})
	}
}

// A light with a time limit is switched off when the run is canceled, and a BMC is reset at most
// once per hour.
func TestCanceledLightAndRareResets(t *testing.T) {
	l := newLab(t, fake.Config{ResetTime: fake.Duration(30 * time.Millisecond)})
	l.Machine("m-1")
	l.lead(quick())
	id := l.Start("m-1", "", "plan/identify-on", map[string]string{"for": "30m"}).GetRunId()
	l.Wait(id, "lit", func(r *holdfastv1.Run) bool {
		as := r.GetSteps()[0].GetAttempts()
		return len(as) > 0 && as[0].GetEvidenceAfter()["lit_until"] != ""
	})
	l.Must(&internalv1.Command{Op: &internalv1.Command_CancelRun{CancelRun: &internalv1.CancelRun{RunId: id}}})
	if run := l.Ended(id); run.GetPhase() != holdfastv1.Run_CANCELED {
		t.Errorf("run: got %s, want CANCELED", run.GetPhase())
	}
	if diff := cmp.Diff([]string{"identify true", "identify false"}, l.did(id)); diff != "" {
		t.Errorf("effects (-want +got):\n%s", diff)
	}
	if run := l.Ended(l.Start("m-1", "", "plan/bmc-reset", nil).GetRunId()); run.GetPhase() != holdfastv1.Run_SUCCEEDED {
		t.Fatalf("first reset: got %s: %v", run.GetPhase(), run.GetError())
	}
	again := l.Ended(l.Start("m-1", "", "plan/bmc-reset", nil).GetRunId())
	if again.GetPhase() != holdfastv1.Run_FAILED || !strings.Contains(again.GetError().GetMessage(),
		"at most one reset an hour") || len(l.did(again.GetRunId())) != 0 {
		t.Errorf("second reset: got %s: %v, effects %v, want a refusal", again.GetPhase(), again.GetError(),
			l.did(again.GetRunId()))
	}
}

// The media step ejects another medium first.
func TestMediaReplacesMedium(t *testing.T) {
	l := newLab(t, fake.Config{})
	l.Machine("m-1")
	l.lead(quick())
	for _, u := range []string{"http://h/a.iso", "http://h/b.iso", "http://h/b.iso"} {
		if run := l.Ended(l.Start("m-1", "", "plan/media-insert",
			map[string]string{"url": u}).GetRunId()); run.GetPhase() != holdfastv1.Run_SUCCEEDED {
			t.Fatalf("insert %s: %v", u, run.GetError())
		}
	}
	l.Ended(l.Start("m-1", "", "plan/media-eject", nil).GetRunId())
	want := []string{"media_insert http://h/a.iso", "media_eject http://h/a.iso", "media_insert http://h/b.iso",
		"media_eject http://h/b.iso"}
	if diff := cmp.Diff(want, l.did("")); diff != "" {
		t.Errorf("effects (-want +got):\n%s", diff)
	}
	m, _ := l.FSM.View().Machine("m-1")
	if got := m.GetStatus().GetPhase(); got != holdfastv1.MachineStatus_READY {
		t.Errorf("phase: got %s, want no change", got)
	}
	if s, _ := l.Fleet.State("m-1"); s.Media != "" || s.Power != providers.PowerOn {
		t.Errorf("got machine %+v", s)
	}
}
