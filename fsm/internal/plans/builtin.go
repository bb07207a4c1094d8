package plans

import (
	"strings"

	"google.golang.org/protobuf/proto"

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
func Defaults() []*holdfastv1.Plan { return append(typePlans(), verbPlans()...) }

// verbPlans returns the plans behind `holdfast machine power`, `boot-device`, `inspect` and
// other commands on one machine.
func verbPlans() []*holdfastv1.Plan {
	plan := func(name, display string, seconds int32, step *holdfastv1.Step) *holdfastv1.Plan {
		step.Name, step.TimeoutSeconds, step.MaxRetries = name, seconds, proto.Int32(2)
		return &holdfastv1.Plan{PlanId: "plan/" + name, DisplayName: display, Steps: []*holdfastv1.Step{step}}
	}
	plans := []*holdfastv1.Plan{
		plan("inspect", "Look at the machine", 120,
			&holdfastv1.Step{Kind: &holdfastv1.Step_Inspect{Inspect: &holdfastv1.Inspect{}}}),
	}
	once := func(p *holdfastv1.Plan) *holdfastv1.Plan { // not repeatable without an inspection
		p.Steps[0].MaxRetries = proto.Int32(0)
		return p
	}
	plans = append(plans,
		plan("identify-on", "Switch the locator light on", 120+maxLight,
			&holdfastv1.Step{Kind: &holdfastv1.Step_Identify{Identify: &holdfastv1.Identify{}}}),
		plan("identify-off", "Switch the locator light off", 120,
			&holdfastv1.Step{Kind: &holdfastv1.Step_Identify{Identify: &holdfastv1.Identify{Off: true}}}),
		plan("sel", "Read the event log of the BMC", 300,
			&holdfastv1.Step{Kind: &holdfastv1.Step_EventLog{EventLog: &holdfastv1.ReadEventLog{}}}),
		plan("sel-clear", "Read and clear the event log of the BMC", 300,
			&holdfastv1.Step{Kind: &holdfastv1.Step_ClearEventLog{ClearEventLog: &holdfastv1.ClearEventLog{}}}),
		once(plan("bmc-reset", "Restart the BMC", 900,
			&holdfastv1.Step{Kind: &holdfastv1.Step_ResetBmc{ResetBmc: &holdfastv1.ResetBmc{}}})),
		plan("media-insert", "Insert virtual media", 300,
			&holdfastv1.Step{Kind: &holdfastv1.Step_Media{Media: &holdfastv1.Media{}}}),
		plan("media-eject", "Eject virtual media", 300,
			&holdfastv1.Step{Kind: &holdfastv1.Step_Media{Media: &holdfastv1.Media{Eject: true}}}),
		plan("inventory", "Read what is in the machine", 300,
			&holdfastv1.Step{Kind: &holdfastv1.Step_Inventory{Inventory: &holdfastv1.ReadInventory{}}}),
		once(plan("console", "Keep the serial console open", 8*3600,
			&holdfastv1.Step{Kind: &holdfastv1.Step_Console{Console: &holdfastv1.SerialConsole{}}})),
	)
	for _, action := range []string{"on", "off", "cycle"} {
		plans = append(plans, plan("power-"+action, "Power "+action, 600,
			&holdfastv1.Step{Kind: &holdfastv1.Step_Power{Power: &holdfastv1.Power{Action: action}}}))
	}
	for _, mode := range []string{"PXE", "HTTP", "DISK", "VIRTUAL_MEDIA"} {
		name := "boot-" + strings.ToLower(strings.ReplaceAll(mode, "_", "-"))
		plans = append(plans, plan(name, "Boot from "+mode+" next", 120,
			&holdfastv1.Step{Kind: &holdfastv1.Step_Netboot{Netboot: &holdfastv1.SetNetboot{Mode: mode}}}))
	}
	return plans
}

func typePlans() []*holdfastv1.Plan {
	ssh := func(name string, seconds int32, script string) *holdfastv1.Step {
		return &holdfastv1.Step{Name: name, TimeoutSeconds: seconds, MaxRetries: proto.Int32(2),
			Kind: &holdfastv1.Step_Ssh{Ssh: &holdfastv1.SshCommand{Script: script}}}
	}
	return []*holdfastv1.Plan{
		{PlanId: "plan/repave-join", DisplayName: "Repave and join the cluster", Steps: []*holdfastv1.Step{
			{
				Name:           "set-netboot",
				TimeoutSeconds: 120,
				MaxRetries:     proto.Int32(3),
				Kind:           &holdfastv1.Step_Netboot{Netboot: &holdfastv1.SetNetboot{Mode: "PXE"}},
			},
			{
				Name:           "reboot-to-netboot",
				TimeoutSeconds: 900,
				MaxRetries:     proto.Int32(2),
				Kind:           &holdfastv1.Step_Reboot{Reboot: &holdfastv1.Reboot{Mode: "auto"}},
			},
			{
				Name:           "repave-image",
				TimeoutSeconds: 3600,
				MaxRetries:     proto.Int32(2),
				Kind:           &holdfastv1.Step_Repave{Repave: &holdfastv1.RepaveImage{}},
			},
			{
				Name:           "join-cluster",
				TimeoutSeconds: 900,
				MaxRetries:     proto.Int32(2),
				Kind:           &holdfastv1.Step_Join{Join: &holdfastv1.KubeadmJoin{Role: "worker"}},
			},
			{
				Name:           "verify-in-cluster",
				TimeoutSeconds: 600,
				MaxRetries:     proto.Int32(1),
				Kind:           &holdfastv1.Step_Verify{Verify: &holdfastv1.VerifyInCluster{}},
			},
		}},
		rmaPlan(ssh, DefaultID("RMA"), "Take out for return or replacement", 600, &holdfastv1.RmaAction{}),
		rmaPlan(ssh, "plan/rma-wipe", "Erase all disks, and take out for return or replacement", 24*3600,
			&holdfastv1.RmaAction{Wipe: true}),
		{PlanId: "plan/reboot", DisplayName: "Reboot", Steps: []*holdfastv1.Step{
			{
				Name:           "reboot",
				TimeoutSeconds: 900,
				MaxRetries:     proto.Int32(2),
				Kind:           &holdfastv1.Step_Reboot{Reboot: &holdfastv1.Reboot{Mode: "auto"}},
			},
		}},
		upgradePlan(ssh, &holdfastv1.Step{
			Name:           "verify-upgrade",
			TimeoutSeconds: 600,
			MaxRetries:     proto.Int32(1),
			Kind:           &holdfastv1.Step_Verify{Verify: &holdfastv1.VerifyInCluster{}},
		}),
		{PlanId: "plan/net-reconfig", DisplayName: "Change the network configuration", Steps: []*holdfastv1.Step{
			{
				Name:           "apply-network-config",
				TimeoutSeconds: 300,
				MaxRetries:     proto.Int32(0),
				Kind:           &holdfastv1.Step_Net{Net: &holdfastv1.NetReconfig{}},
			},
			ssh("verify-connectivity", 120, "set -eu\ntrue\n"),
		}},
	}
}

// rmaPlan returns a plan that takes a machine out. Erasing its disks can take hours; powering
// it off does not.
func rmaPlan(
	ssh func(name string, seconds int32, script string) *holdfastv1.Step,
	id, display string, seconds int32, rma *holdfastv1.RmaAction,
) *holdfastv1.Plan {
	return &holdfastv1.Plan{PlanId: id, DisplayName: display, Steps: []*holdfastv1.Step{
		ssh("drain-check", 600, drainCheck),
		ssh("graceful-shutdown", 300, "set -eu\nsync\n"+
			"if command -v systemctl >/dev/null 2>&1; then systemctl stop kubelet 2>/dev/null || true; fi\nsync\n"),
		{Name: "mark-rma", TimeoutSeconds: seconds, MaxRetries: proto.Int32(2), Kind: &holdfastv1.Step_Rma{Rma: rma}},
	}}
}
