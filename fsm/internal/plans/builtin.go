package plans

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/proto/holdfast/stepkind"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// CanonicalType returns the stored form of a run type: upper case with underscores
// (docs/clients.md, 002).
func CanonicalType(s string) (string, bool) {
	c := strings.ToUpper(strings.ReplaceAll(s, "-", "_"))
	return c, DefaultID(c) != ""
}

// DefaultID returns the plan of a canonical run type for requests that name none.
func DefaultID(canonicalType string) string {
	switch canonicalType {
	case "REPAVE":
		return "plan/repave-join"
	case "RMA":
		return "plan/rma"
	case "REBOOT":
		return "plan/reboot"
	case "UPGRADE":
		return "plan/upgrade"
	case "NET_RECONFIG":
		return "plan/net-reconfig"
	}
	return ""
}

// Defaults returns the built-in plans: one per run type (docs/clients.md, 002), and one
// for each operation on a single machine. The first leader stores them, so that all peers
// have the same plans, whatever their versions.
func Defaults() []*holdfastv1.Plan { return slices.Concat(typePlans(), setAsidePlans(), verbPlans()) }

// stepOf returns a step of a built-in plan, with the timeout of its kind.
func stepOf(name string, retries int32, settings proto.Message) *holdfastv1.Step {
	s := stepkind.With(settings)
	s.Name, s.TimeoutSeconds, s.MaxRetries = name, stepkind.Of(s).GetTimeoutSeconds(), new(retries)
	return s
}

// sshStep returns a step that runs a script, with its own timeout and retries.
func sshStep(name string, seconds, retries int32, script string) *holdfastv1.Step {
	s := stepOf(name, retries, &holdfastv1.SshCommand{Script: script})
	s.TimeoutSeconds = seconds
	return s
}

// verbPlans returns the plans behind `holdfast machine power`, `boot-device`, `inspect` and
// other commands on one machine.
func verbPlans() []*holdfastv1.Plan {
	plan := func(name, display string, settings proto.Message) *holdfastv1.Plan {
		return &holdfastv1.Plan{PlanId: "plan/" + name, DisplayName: display,
			Steps: []*holdfastv1.Step{stepOf(name, 2, settings)}}
	}
	once := func(p *holdfastv1.Plan) *holdfastv1.Plan { // not repeatable without an inspection
		p.Steps[0].MaxRetries = proto.Int32(0)
		return p
	}
	light := plan("identify-on", "Switch the locator light on", &holdfastv1.Identify{})
	light.Steps[0].TimeoutSeconds += maxLight
	plans := []*holdfastv1.Plan{
		plan("inspect", "Look at the machine", &holdfastv1.Inspect{}),
		light,
		plan("identify-off", "Switch the locator light off", &holdfastv1.Identify{Off: true}),
		plan("sel", "Read the event log of the BMC", &holdfastv1.ReadEventLog{}),
		plan("sel-clear", "Read and clear the event log of the BMC", &holdfastv1.ClearEventLog{}),
		once(plan("bmc-reset", "Restart the BMC", &holdfastv1.ResetBmc{})),
		plan("media-insert", "Insert virtual media", &holdfastv1.Media{}),
		plan("media-eject", "Eject virtual media", &holdfastv1.Media{Eject: true}),
		plan("inventory", "Read what is in the machine", &holdfastv1.ReadInventory{}),
		once(plan("console", "Keep the serial console open", &holdfastv1.SerialConsole{})),
	}
	for _, action := range []string{"on", "off", "cycle"} {
		plans = append(plans, plan("power-"+action, "Power "+action, &holdfastv1.Power{Action: action}))
	}
	for _, mode := range []string{"PXE", "HTTP", "DISK", "VIRTUAL_MEDIA"} {
		name := "boot-" + strings.ToLower(strings.ReplaceAll(mode, "_", "-"))
		plans = append(plans, plan(name, "Boot from "+mode+" next", &holdfastv1.SetNetboot{Mode: mode}))
	}
	return plans
}

func typePlans() []*holdfastv1.Plan {
	wipe := rmaPlan("plan/rma-wipe", "Erase all disks, and take out for return or replacement",
		&holdfastv1.RmaAction{Wipe: true})
	wipe.Steps[2].TimeoutSeconds = 24 * 3600 // to erase disks can take hours
	return []*holdfastv1.Plan{
		{PlanId: "plan/repave-join", DisplayName: "Repave and join the cluster", Steps: []*holdfastv1.Step{
			stepOf("set-netboot", 3, &holdfastv1.SetNetboot{Mode: "PXE"}),
			stepOf("reboot-to-netboot", 2, &holdfastv1.Reboot{Mode: "auto"}),
			stepOf("repave-image", 2, &holdfastv1.RepaveImage{}),
			stepOf("join-cluster", 2, &holdfastv1.KubeadmJoin{Role: "worker"}),
			stepOf("verify-in-cluster", 1, &holdfastv1.VerifyInCluster{}),
		}},
		rmaPlan(DefaultID("RMA"), "Take out for return or replacement", &holdfastv1.RmaAction{}),
		wipe,
		{PlanId: "plan/reboot", DisplayName: "Reboot", Steps: []*holdfastv1.Step{
			stepOf("reboot", 2, &holdfastv1.Reboot{Mode: "auto"}),
		}},
		upgradePlan(),
		{PlanId: "plan/net-reconfig", DisplayName: "Change the network configuration", Steps: []*holdfastv1.Step{
			stepOf("apply-network-config", 0, &holdfastv1.NetReconfig{}),
			sshStep("verify-connectivity", 120, 2, "set -eu\ntrue\n"),
		}},
	}
}

// rmaPlan returns a plan that takes a machine out.
func rmaPlan(id, display string, rma *holdfastv1.RmaAction) *holdfastv1.Plan {
	return &holdfastv1.Plan{PlanId: id, DisplayName: display, Steps: []*holdfastv1.Step{
		sshStep("drain-check", 600, 2, drainCheck),
		sshStep("graceful-shutdown", 300, 2, "set -eu\nsync\n"+
			"if command -v systemctl >/dev/null 2>&1; then systemctl stop kubelet 2>/dev/null || true; fi\nsync\n"),
		stepOf("mark-rma", 2, rma),
	}}
}
