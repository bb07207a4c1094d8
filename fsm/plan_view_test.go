package fsm_test

import (
	"bytes"
	"fmt"
	"sync"
	"testing"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// TestStartLeavesPlansOfViewsAlone checks that marking a plan as referenced changes the record,
// and not the shared plan.
func TestStartLeavesPlansOfViewsAlone(t *testing.T) {
	p := fsmtest.NewPeer()
	do(t, p, &internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: "m-1",
		Labels: map[string]string{"provider": "fake"}, Spec: &holdfastv1.MachineSpec{}}})
	before := p.View()
	shared, ok := before.Plan(fsm.DefaultPlanID("REBOOT"))
	if !ok || shared.GetReferenced() {
		t.Fatalf("got %v, want a plan that nothing refers to", shared)
	}
	do(t, p, &internalv1.StartRun{RunId: "run-1", MachineId: "m-1", RequestId: "r-1", Type: "REBOOT",
		CheckedProvider: "fake"})
	if shared.GetReferenced() {
		t.Error("the plan that others look at was changed")
	}
	if after, _ := p.View().Plan(fsm.DefaultPlanID("REBOOT")); !after.GetReferenced() {
		t.Error("the plan is not referred to after the start of a run")
	}
}

// TestPlansWhileApplying reads an encoded plan in readers and commands concurrently (-race).
func TestPlansWhileApplying(t *testing.T) {
	p := fsmtest.NewPeer()
	for i := range 64 {
		do(t, p, &internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: fmt.Sprintf("m-%d", i),
			Labels: map[string]string{"provider": "fake"}}})
	}
	if err := p.Restore(bytes.NewReader(snapshotBytes(t, p.FSM))); err != nil {
		t.Fatal(err)
	}
	id := fsm.DefaultPlanID("REBOOT")
	var readers sync.WaitGroup
	done := make(chan struct{})
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				v := p.View()
				if got, ok := v.Plan(id); !ok || got.GetPlanId() != id {
					t.Errorf("got %v, want plan %s", got, id)
					return
				}
			}
		})
	}
	for i := range 64 {
		run := fmt.Sprintf("run-%d", i)
		do(t, p, &internalv1.StartRun{RunId: run, MachineId: fmt.Sprintf("m-%d", i), RequestId: run, Type: "REBOOT",
			CheckedProvider: "fake"})
		do(t, p, &internalv1.CreatePlan{Plan: &holdfastv1.Plan{PlanId: run,
			Steps: []*holdfastv1.Step{{Name: "one", Kind: &holdfastv1.Step_Ssh{Ssh: &holdfastv1.SshCommand{Command: "true"}}}}}})
	}
	close(done)
	readers.Wait()
}

func TestViewProviderOf(t *testing.T) {
	p := fsmtest.NewPeer()
	for id, m := range map[string]*holdfastv1.Machine{
		"neither": {},
		"label":   {Labels: map[string]string{"provider": "by-label"}},
		"empty":   {Labels: map[string]string{"provider": ""}},
		"spec":    {Spec: &holdfastv1.MachineSpec{Provider: "by-spec"}},
		"both": {Spec: &holdfastv1.MachineSpec{Provider: "by-spec"},
			Labels: map[string]string{"provider": "by-label", "a": "b"}},
	} {
		m.MachineId = id
		do(t, p, &internalv1.RegisterMachine{Machine: m})
		stored, _ := p.View().Machine(id)
		if got, ok := p.View().ProviderOf(id); !ok || got != fsm.ProviderOf(stored) {
			t.Errorf("%s: got %q, %v, want %q", id, got, ok, fsm.ProviderOf(stored))
		}
	}
	if got, ok := p.View().ProviderOf("none"); ok || got != "" {
		t.Errorf("a machine that is not there: got %q, %v", got, ok)
	}
}
