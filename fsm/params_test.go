package fsm_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

func TestCheckParams(t *testing.T) {
	plans := map[string]*holdfastv1.Plan{}
	for _, p := range fsm.DefaultPlans() {
		plans[p.GetPlanId()] = p
	}
	ssh := func(c *holdfastv1.SshCommand) *holdfastv1.Plan {
		return &holdfastv1.Plan{PlanId: "p", Steps: []*holdfastv1.Step{{Name: "s", Kind: &holdfastv1.Step_Ssh{Ssh: c}}}}
	}
	script := ssh(&holdfastv1.SshCommand{Script: `echo "${HOLDFAST_PARAM_SITE:-none}"`})
	for _, tt := range []struct {
		name   string
		plan   *holdfastv1.Plan
		params string // name=value, separated by spaces
		want   string // of the error; "" for none
	}{
		{"no parameters", plans["plan/repave-join"], "", ""},
		{"all that are read", plans["plan/repave-join"],
			"image=a cluster_ref=b authorized_keys=c uefi=true persistent=true force=true shutdown_seconds=9", ""},
		{"mistyped", plans["plan/repave-join"], "imag=a", `params.imag: no step of plan "plan/repave-join" reads it: did you mean image?; it reads: authorized_keys, boot_mode, cluster_ref, force, image, persistent, shutdown_seconds, uefi`},
		{"boot mode", plans["plan/boot-pxe"], "boot_mode=bios", ""},
		{"no boot mode", plans["plan/boot-pxe"], "boot_mode=legacy",
			`params.boot_mode: "legacy" is not one of keep, uefi, bios`},
		{"BIOS over HTTP", plans["plan/boot-http"], "boot_mode=bios", `params.boot_mode: is bios, and step "boot-http" of plan "plan/boot-http" boots by HTTP, which requires UEFI`},
		{"of another kind", plans["plan/reboot"], "image=a",
			`params.image: no step of plan "plan/reboot" reads it; it reads: force, shutdown_seconds`},
		{"none is read", plans["plan/inspect"], "x=y",
			`params.x: no step of plan "plan/inspect" reads it; it reads: no parameters`},
		{"rma", plans["plan/rma"], "reason=a ticket=b wipe=true force=true shutdown_seconds=9 cluster_ref=c", ""},
		{"upgrade", plans["plan/upgrade"], "version=1.31.2 force=true cluster_ref=c", ""},
		{"net", plans["plan/net-reconfig"], "net_config=a new_ssh_endpoint=b", ""},
		{"net without its configuration", plans["plan/net-reconfig"], "", `params.net_config: is required: step "apply-network-config" of plan "plan/net-reconfig" has no value: set the parameter`},
		{"medium", plans["plan/media-insert"], "url=https://a/b.iso", ""},
		{"medium without its URL", plans["plan/media-insert"], "", `params.url: is required: step "media-insert" of plan "plan/media-insert" has no value: set the parameter`},
		{"eject", plans["plan/media-eject"], "", ""},
		{"light", plans["plan/identify-on"], "for=5m", ""},
		{"named by a script", script, "site=fra", ""},
		{"the beginning of a name", script, "sit=fra",
			`params.sit: no step of plan "p" reads it: did you mean site?; it reads: site`},
		{"in capitals", script, "SITE=fra", `params.SITE: no step of plan "p" reads it; it reads: site`},
		{"named by an argument", ssh(&holdfastv1.SshCommand{Command: "sh",
			Args: []string{"-c", "echo $HOLDFAST_PARAM_SITE"}}), "site=fra", ""},
		{"declared", ssh(&holdfastv1.SshCommand{Command: "/opt/setup", Params: []string{"site"}}), "site=fra", ""},
		{"not declared", ssh(&holdfastv1.SshCommand{Command: "/opt/setup"}), "site=fra",
			`params.site: no step of plan "p" reads it; it reads: no parameters`},
	} {
		params := map[string]string{}
		for p := range strings.FieldsSeq(tt.params) {
			name, value, _ := strings.Cut(p, "=")
			params[name] = value
		}
		got := ""
		if err := fsm.CheckParams(tt.plan, params); err != nil {
			got = err.Error()
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// A run with a mistyped parameter is refused.
func TestUnreadParamStartsNoRun(t *testing.T) {
	p := fsmtest.NewPeer()
	register(t, p, "m", ready)
	r := p.Do(&internalv1.StartRun{RunId: "run-1", MachineId: "m", RequestId: "r", Type: "REPAVE",
		Params: map[string]string{"imag": "debian"}})
	if r.Err == nil {
		t.Error("got a run, want a refusal")
	}
	if m, _ := p.View().Machine("m"); m.GetStatus().GetActiveRunId() != "" {
		t.Errorf("the machine has run %q", m.GetStatus().GetActiveRunId())
	}
}
