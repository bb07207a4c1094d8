package runs

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/describe"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc"
	"github.com/holdfast-metal/holdfast/providers/bmc/redfishtest"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

// ward is a machine with a misbehaving Redfish BMC, and its leader.
type ward struct {
	*lab
	s *redfishtest.Service
	p *bmc.Provider

	mu   sync.Mutex
	acct bmc.Account
}

// Account returns the secret of the BMC.
func (w *ward) Account(context.Context, providers.Machine) (bmc.Account, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.acct, nil
}

func (w *ward) secret(a bmc.Account) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.acct = a
}

// patience is longer than a busy machine needs for an answer.
const patience = 20 * time.Second

// newWard starts the BMC. request bounds the time of each request to it.
func newWard(t *testing.T, c redfishtest.Config, request time.Duration) *ward {
	t.Helper()
	w := &ward{lab: newLab(t, fake.Config{}), s: redfishtest.New(c),
		acct: bmc.Account{User: "admin", Password: "secret", Version: "1"}}
	h := httptest.NewServer(w.s.Handler())
	t.Cleanup(func() {
		w.s.Close()
		h.Close()
	})
	var err error
	w.p, err = bmc.New(bmc.Config{Protocol: bmc.Redfish, AllowHTTP: true, Settle: 200 * time.Millisecond,
		RequestTime: request, OpenTime: time.Second}, bmc.Deps{Credentials: w})
	if err != nil {
		t.Fatal(err)
	}
	w.Set = providers.SetOf(map[string]providers.Provider{"dc-1": w.p})
	w.Must(&internalv1.Command{Op: &internalv1.Command_RegisterMachine{RegisterMachine: &internalv1.RegisterMachine{
		Machine: &holdfastv1.Machine{MachineId: "m-1", Spec: &holdfastv1.MachineSpec{BmcEndpoint: h.URL}}}}})
	return w
}

// run starts a run of power steps, and its leader.
func (w *ward) run(timeout time.Duration, retries int32, actions ...string) string {
	w.T.Helper()
	var steps []*holdfastv1.Step
	for _, a := range actions {
		s := stepOf(a, &holdfastv1.Power{Action: a, Force: true})
		s.TimeoutSeconds, s.MaxRetries = int32(timeout/time.Second), new(retries)
		steps = append(steps, s)
	}
	w.Plan("p", steps...)
	cfg := quick()
	cfg.NoteAfter, cfg.RetryBase, cfg.RetryMax = time.Millisecond, 50*time.Millisecond, 500*time.Millisecond
	w.lead(cfg)
	return w.Start("m-1", "", "p", nil).GetRunId()
}

// sees blocks until a text is visible to an operator: in its wait, in an attempt's error, or in
// the log.
func (w *ward) sees(run, words string) {
	w.T.Helper()
	w.Wait(run, "reported "+words, func(r *holdfastv1.Run) bool {
		if strings.Contains(describe.Wait(r.GetWait()), words) || strings.Contains(w.Log(run, "system"), words) {
			return true
		}
		if fsm.Ended(r) {
			w.T.Fatalf("run: got %s (%v) without %q:\n%s", r.GetPhase(), r.GetError(), words, w.Log(run, "system"))
		}
		return false
	})
}

// presses returns the presses that the BMC has accepted, and the recorded ones, in order.
func (w *ward) presses(run string) (accepted, recorded []string) {
	words := map[string]string{"On": "on", "ForceOff": "hard-off"}
	for _, e := range w.s.Effects("reset") {
		accepted = append(accepted, words[e.Detail])
	}
	for l := range strings.Lines(w.Log(run, "system")) {
		if a, ok := strings.CutPrefix(strings.TrimSpace(l), "power "); ok && (a == "on" || a == "hard-off") {
			recorded = append(recorded, a)
		}
	}
	return accepted, recorded
}

// ends waits for the end of a run, and compares the presses that the BMC accepted with
// the wanted ones. No session may be left at the end of the term.
func (w *ward) ends(run string, phase holdfastv1.Run_Phase, want ...string) *holdfastv1.Run {
	w.T.Helper()
	r := w.Ended(run)
	if r.GetPhase() != phase {
		w.T.Errorf("run: got %s (%v), want %s\n%s", r.GetPhase(), r.GetError(), phase, w.Log(run, "system"))
	}
	accepted, recorded := w.presses(run)
	if diff := cmp.Diff(want, accepted); diff != "" {
		w.T.Errorf("presses accepted by the BMC (-want +got):\n%s\n%s", diff, w.Log(run, "system"))
	}
	if !within(accepted, recorded) {
		w.T.Errorf("got presses %v at the BMC, but %v recorded", accepted, recorded)
	}
	w.s.Set(func(q *redfishtest.Quirks) { *q = redfishtest.Quirks{} })
	if err := w.p.Close(w.T.Context()); err != nil {
		w.T.Errorf("close: %v", err)
	}
	w.s.CloseSessions("other")
	if n := w.s.Sessions(); n != 0 {
		w.T.Errorf("got %d remaining sessions on the BMC, want 0", n)
	}
	return r
}

// within reports whether presses are among the recorded ones, in the same order. A
// recorded press may have been refused or lost, but nothing else may have been done.
func within(some, all []string) bool {
	for _, a := range all {
		if len(some) > 0 && some[0] == a {
			some = some[1:]
		}
	}
	return len(some) == 0
}

// All eight sessions of the BMC are held by other clients. The run reports that, ends none of them,
// and continues once a session is free.
func TestBMCWithoutFreeSession(t *testing.T) {
	t.Parallel()
	w := newWard(t, redfishtest.Config{}, patience)
	for range 8 {
		w.s.OpenSession("other")
	}
	w.s.Set(func(q *redfishtest.Quirks) { q.SessionLimit = 8 })
	run := w.run(5*time.Second, 100, "cycle")
	w.sees(run, "SessionLimitExceeded")
	if n := w.s.Sessions(); n != 8 {
		t.Errorf("got %d sessions, want those of others unchanged", n)
	}
	w.s.CloseSessions("other")
	w.ends(run, holdfastv1.Run_SUCCEEDED, "hard-off", "on")
}

// The BMC answers 409 while the machine is in POST. Nothing is pressed, the run reports the reason,
// and presses once POST has ended.
func TestBMCRefusesWhileInPOST(t *testing.T) {
	t.Parallel()
	w := newWard(t, redfishtest.Config{Off: true, PostTime: time.Hour}, patience)
	w.s.Set(func(q *redfishtest.Quirks) { q.InPOST = true })
	run := w.run(30*time.Second, 100, "on", "off")
	w.sees(run, "UnableToModifyDuringSystemPOST")
	if accepted, _ := w.presses(run); !cmp.Equal(accepted, []string{"on"}) {
		t.Errorf("during POST: got accepted presses %v, want none", accepted)
	}
	w.s.Set(func(q *redfishtest.Quirks) { q.InPOST = false })
	w.ends(run, holdfastv1.Run_SUCCEEDED, "on", "hard-off")
}

// A BMC may report the URL of an inserted medium in another spelling.
func TestBMCNormalizesMediaURL(t *testing.T) {
	t.Parallel()
	w := newWard(t, redfishtest.Config{}, patience)
	w.s.Set(func(q *redfishtest.Quirks) { q.MediaSpelling = true })
	s := stepOf("s", &holdfastv1.Media{Url: "http://images.example/boot.iso"})
	s.TimeoutSeconds = 60
	w.Plan("media", s)
	w.lead(quick())
	if run := w.Ended(w.Start("m-1", "", "media", nil).GetRunId()); run.GetPhase() != holdfastv1.Run_SUCCEEDED {
		t.Errorf("run: got %s: %v, want SUCCEEDED", run.GetPhase(), run.GetError())
	}
	if n := len(w.s.Effects("media_insert")); n != 1 {
		t.Errorf("got %d inserts, want 1", n)
	}
}

// An accepted press without an effect is not a success. Each attempt presses once, and the run
// reports the wait.
func TestBMCAcceptsAndDoesNothing(t *testing.T) {
	t.Parallel()
	w := newWard(t, redfishtest.Config{}, patience)
	w.s.Set(func(q *redfishtest.Quirks) { q.Ignore = []string{"reset"} })
	run := w.run(5*time.Second, 1, "off")
	r := w.Ended(run)
	accepted, recorded := w.presses(run)
	if len(accepted) == 0 || len(accepted) > len(r.GetSteps()[0].GetAttempts()) || !cmp.Equal(accepted, recorded) {
		t.Errorf("got presses %v at the BMC, %v recorded, in %d attempts", accepted, recorded,
			len(r.GetSteps()[0].GetAttempts()))
	}
	w.sees(run, "waiting for the power to be off")
	if !w.s.Power("1") {
		t.Error("the machine is off: nothing was tested")
	}
	w.ends(run, holdfastv1.Run_FAILED, accepted...)
}

// The BMC hangs after some requests. Then it is only probed, the run reports that, and continues
// once the BMC answers again.
func TestBMCHangsAfterSomeRequests(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 3, 4, 6} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			w := newWard(t, redfishtest.Config{}, 300*time.Millisecond)
			w.s.Set(func(q *redfishtest.Quirks) { q.HangAfter = n })
			run := w.run(6*time.Second, 100, "cycle")
			w.sees(run, "is left alone until")
			w.s.Set(func(q *redfishtest.Quirks) { q.HangAfter = 0 })
			w.ends(run, holdfastv1.Run_SUCCEEDED, "hard-off", "on")
		})
	}
}

// The account locks after three failed logins. Two are tried, the run fails and asks for an
// operator, and the next run succeeds with the right secret.
func TestBMCLocksAccounts(t *testing.T) {
	t.Parallel()
	w := newWard(t, redfishtest.Config{}, patience)
	w.s.Set(func(q *redfishtest.Quirks) { q.LockAfter = 3 })
	w.secret(bmc.Account{User: "admin", Password: "wrong", Version: "1"})
	first := w.run(10*time.Second, 9, "cycle")
	r := w.Ended(first)
	attempts := r.GetSteps()[0].GetAttempts()
	if last := attempts[len(attempts)-1]; r.GetPhase() != holdfastv1.Run_FAILED || len(attempts) != 2 ||
		last.GetErrorClass() != "auth" {
		t.Errorf("run: got %s after %d attempts (%v), want FAILED after two, class auth", r.GetPhase(), len(attempts),
			r.GetError())
	}
	if n := w.s.Logins(); n != 2 {
		t.Errorf("got %d logins, want 2, because the third locks the account", n)
	}
	m, _ := w.FSM.View().Machine("m-1")
	if b := m.GetStatus().GetBanners(); len(b) != 1 || !strings.HasPrefix(b[0], "NeedsIntervention: ") ||
		!strings.Contains(b[0], "auth") {
		t.Errorf("got banners %q, want one that asks for an operator, with the reason", b)
	}
	if accepted, recorded := w.presses(first); accepted != nil || recorded != nil {
		t.Errorf("got presses %v at the BMC, %v recorded, want none", accepted, recorded)
	}
	w.secret(bmc.Account{User: "admin", Password: "secret", Version: "2"})
	w.ends(w.Start("m-1", "", "p", nil).GetRunId(), holdfastv1.Run_SUCCEEDED, "hard-off", "on")
}

// The connection breaks during a press, or the BMC restarts. The press is not repeated, because the
// machine is polled first.
func TestBMCLosesAPress(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*redfishtest.Quirks){
		"connection": func(q *redfishtest.Quirks) { q.DropPresses = 2 },
		"restart":    func(q *redfishtest.Quirks) { q.RebootPresses = 2 },
		"all":        func(q *redfishtest.Quirks) { q.Drop, q.DropPresses = 3, 1 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWard(t, redfishtest.Config{ResetTime: 100 * time.Millisecond}, patience)
			w.s.Set(lose)
			run := w.run(60*time.Second, 100, "cycle")
			w.sees(run, "the outcome is unknown")
			w.ends(run, holdfastv1.Run_SUCCEEDED, "hard-off", "on")
		})
	}
}
