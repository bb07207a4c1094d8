package fsm_test

import (
	"fmt"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// TestSharedPlan checks that cached plans equal those of the state at any time, with many
// plans and many changes.
func TestSharedPlan(t *testing.T) {
	p := fsmtest.NewPeer()
	plan := func(id, command string) *holdfastv1.Plan {
		return &holdfastv1.Plan{PlanId: id,
			Steps: []*holdfastv1.Step{{Name: "one", Kind: &holdfastv1.Step_Ssh{Ssh: &holdfastv1.SshCommand{Command: command}}}}}
	}
	same := func(v *fsm.View, id string) {
		t.Helper()
		want, has := v.Plan(id)
		for range 2 {
			if got, ok := v.SharedPlan(id); ok != has || !proto.Equal(got, want) {
				t.Fatalf("shared plan %q: got %v, %v, want %v, %v", id, got, ok, want, has)
			}
		}
	}
	do(t, p, &internalv1.CreatePlan{Plan: plan("a", "true")})
	old := p.View()
	same(old, "a")
	do(t, p, &internalv1.CreatePlan{Plan: plan("a", "false"), Replace: true})
	same(p.View(), "a")
	same(old, "a")
	for i := range 100 { // more than the cache keeps
		do(t, p, &internalv1.CreatePlan{Plan: plan(fmt.Sprintf("p-%d", i), "true")})
		same(p.View(), fmt.Sprintf("p-%d", i))
		same(p.View(), "a")
	}
	do(t, p, &internalv1.DeletePlan{PlanId: "a"})
	same(p.View(), "a")
	same(old, "a")
}

// TestStartLeavesSharedPlanAlone checks that marking a plan as referenced changes the record,
// and not the shared plan.
func TestStartLeavesSharedPlanAlone(t *testing.T) {
	p := fsmtest.NewPeer()
	do(t, p, &internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: "m-1",
		Labels: map[string]string{"provider": "fake"}, Spec: &holdfastv1.MachineSpec{}}})
	before := p.View()
	shared, ok := before.SharedPlan(fsm.DefaultPlanID("REBOOT"))
	if !ok || shared.GetReferenced() {
		t.Fatalf("got %v, want a plan that nothing refers to", shared)
	}
	do(t, p, &internalv1.StartRun{RunId: "run-1", MachineId: "m-1", RequestId: "r-1", Type: "REBOOT",
		CheckedProvider: "fake"})
	if shared.GetReferenced() {
		t.Error("the plan that others look at was changed")
	}
	if after, _ := p.View().SharedPlan(fsm.DefaultPlanID("REBOOT")); !after.GetReferenced() {
		t.Error("the plan is not referred to after the start of a run")
	}
}

// TestSharedPlanWhileApplying decodes the same plans in readers and commands concurrently
// (-race).
func TestSharedPlanWhileApplying(t *testing.T) {
	p := fsmtest.NewPeer()
	for i := range 64 {
		do(t, p, &internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: fmt.Sprintf("m-%d", i),
			Labels: map[string]string{"provider": "fake"}}})
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
				want, _ := v.Plan(id)
				if got, ok := v.SharedPlan(id); !ok || !proto.Equal(got, want) {
					t.Errorf("got %v, want %v", got, want)
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
		p.View().SharedPlan(run) // so that the cache overflows once
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
