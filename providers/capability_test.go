package providers_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/proto/holdfast/stepkind"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers"
)

// powerOnly can press buttons and look.
type powerOnly struct{ named }

func (powerOnly) Inspect(context.Context, providers.Machine) (providers.Facts, error) {
	return providers.Facts{}, nil
}

func (powerOnly) PowerState(context.Context, providers.Machine) (providers.PowerState, error) {
	return providers.PowerOn, nil
}

func (powerOnly) SetPower(context.Context, providers.Op, providers.Machine, providers.PowerAction) error {
	return nil
}

func TestCapabilities(t *testing.T) {
	if got := providers.Capabilities(named{}); len(got) != 0 {
		t.Fatalf("got %v, want none", got)
	}
	want := []providers.Capability{providers.CanInspect, providers.CanPower}
	if diff := cmp.Diff(want, providers.Capabilities(powerOnly{})); diff != "" {
		t.Fatal(diff)
	}
}

func TestNeeds(t *testing.T) {
	reboot := func(mode string) *holdfastv1.Step {
		return &holdfastv1.Step{Kind: &holdfastv1.Step_Reboot{Reboot: &holdfastv1.Reboot{Mode: mode}}}
	}
	rma := func(wipe bool) *holdfastv1.Step {
		return &holdfastv1.Step{Kind: &holdfastv1.Step_Rma{Rma: &holdfastv1.RmaAction{Wipe: wipe}}}
	}
	for _, c := range []struct {
		name string
		step *holdfastv1.Step
		want []providers.Capability
	}{
		{"ssh", &holdfastv1.Step{Kind: &holdfastv1.Step_Ssh{}}, []providers.Capability{providers.CanExec}},
		{"reboot in band", reboot("inband"), []providers.Capability{providers.CanInspect, providers.CanExec}},
		{"reboot through the BMC", reboot("bmc"), []providers.Capability{providers.CanInspect, providers.CanPower}},
		{"reboot by default", reboot(""), []providers.Capability{providers.CanInspect, providers.CanPower}},
		{"netboot", &holdfastv1.Step{Kind: &holdfastv1.Step_Netboot{}}, []providers.Capability{providers.CanBoot}},
		{"repave", &holdfastv1.Step{Kind: &holdfastv1.Step_Repave{}}, []providers.Capability{providers.CanImage}},
		{"join", &holdfastv1.Step{Kind: &holdfastv1.Step_Join{}}, []providers.Capability{providers.CanJoin}},
		{"verify", &holdfastv1.Step{Kind: &holdfastv1.Step_Verify{}}, []providers.Capability{providers.CanJoin}},
		{"net", &holdfastv1.Step{Kind: &holdfastv1.Step_Net{}}, []providers.Capability{providers.CanNet}},
		{"rma", rma(false), []providers.Capability{providers.CanPower}},
		{"rma with wipe", rma(true), []providers.Capability{providers.CanPower, providers.CanImage}},
		{"power", &holdfastv1.Step{Kind: &holdfastv1.Step_Power{}}, []providers.Capability{providers.CanPower}},
		{"inspect", &holdfastv1.Step{Kind: &holdfastv1.Step_Inspect{}}, []providers.Capability{providers.CanInspect}},
		{"identify", &holdfastv1.Step{Kind: &holdfastv1.Step_Identify{}}, []providers.Capability{providers.CanIdentify}},
		{"read the event log", &holdfastv1.Step{Kind: &holdfastv1.Step_EventLog{}},
			[]providers.Capability{providers.CanEvents}},
		{"clear the event log", &holdfastv1.Step{Kind: &holdfastv1.Step_ClearEventLog{}},
			[]providers.Capability{providers.CanEvents}},
		{"reset the BMC", &holdfastv1.Step{Kind: &holdfastv1.Step_ResetBmc{}},
			[]providers.Capability{providers.CanReset, providers.CanInspect}},
		{"media", &holdfastv1.Step{Kind: &holdfastv1.Step_Media{}}, []providers.Capability{providers.CanMedia}},
		{"inventory", &holdfastv1.Step{Kind: &holdfastv1.Step_Inventory{}}, []providers.Capability{providers.CanInventory}},
		{"console", &holdfastv1.Step{Kind: &holdfastv1.Step_Console{}}, []providers.Capability{providers.CanConsole}},
		{"nothing", &holdfastv1.Step{}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, providers.Needs(c.step)); diff != "" {
				t.Fatal(diff)
			}
		})
	}
}

// erasing has a power button and a host that erases its own disks.
type erasing struct{ powerOnly }

func (erasing) Erase(context.Context, providers.Op, providers.Machine, time.Duration) error {
	return nil
}

func TestMissingOfAWipe(t *testing.T) {
	wipe := &holdfastv1.Plan{Steps: []*holdfastv1.Step{{Name: "wipe",
		Kind: &holdfastv1.Step_Rma{Rma: &holdfastv1.RmaAction{Wipe: true}}}}}
	if c, _ := providers.Missing(powerOnly{}, wipe); c != providers.CanImage {
		t.Errorf("of a machine that nobody can erase %q is missing", c)
	}
	if c, _ := providers.Missing(erasing{}, wipe); c != "" {
		t.Errorf("of a machine whose host erases it %q is missing", c)
	}
	repave := &holdfastv1.Plan{Steps: []*holdfastv1.Step{{Name: "write", Kind: &holdfastv1.Step_Repave{}}}}
	if c, _ := providers.Missing(erasing{}, repave); c != providers.CanImage {
		t.Errorf("to install on a machine that can only be erased %q is missing", c)
	}
}

// TestEveryNeedIsACapability fails if a kind of step declares a capability that does not exist.
func TestEveryNeedIsACapability(t *testing.T) {
	var everything struct {
		providers.Provider
		providers.Inspector
		providers.PowerController
		providers.BootController
		providers.MediaController
		providers.Imager
		providers.RemoteExecutor
		providers.ClusterJoiner
		providers.NetConfigurator
		providers.Console
		providers.HealthReader
		providers.Identifier
		providers.EventLog
		providers.BMCResetter
		providers.InventoryReader
	}
	known := providers.Capabilities(everything)
	for _, name := range stepkind.Names() {
		for _, c := range providers.Needs(stepkind.New(name)) {
			if !slices.Contains(known, c) {
				t.Errorf("kind %s needs %q, want one of %v", name, c, known)
			}
		}
	}
}

func TestMissing(t *testing.T) {
	plan := &holdfastv1.Plan{Steps: []*holdfastv1.Step{
		{Name: "restart", Kind: &holdfastv1.Step_Reboot{Reboot: &holdfastv1.Reboot{}}},
		{Name: "write", Kind: &holdfastv1.Step_Repave{}},
		{Name: "enter", Kind: &holdfastv1.Step_Join{}},
	}}
	if c, step := providers.Missing(powerOnly{}, plan); c != providers.CanImage || step != "write" {
		t.Fatalf("got %q in %q, want the first that is missing: Imager in write", c, step)
	}
	plan.Steps = plan.Steps[:1]
	if c, step := providers.Missing(powerOnly{}, plan); c != "" || step != "" {
		t.Fatalf("got %q in %q, want nothing", c, step)
	}
}
