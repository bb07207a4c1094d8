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
		{"wipe", plans["plan/rma"], "wipe=True", `params.wipe: "True" is not true or false`},
		{"empty", plans["plan/repave-join"], "image=", "params.image: is empty: give a value, or leave the parameter out"},
		{"soon", plans["plan/power-off"], "shutdown_seconds=soon", `params.shutdown_seconds: "soon" is not a whole number of 1 to 86400`},
		{"fixed by its step", plans["plan/rma-wipe"], "wipe=false", `params.wipe: step "mark-rma" of plan "plan/rma-wipe" sets it itself (true), and a run cannot change it: leave it out, or use another plan`},
		{"a URL as image", plans["plan/repave-join"], "image=https://a/b.img", ""},
		{"UEFI and BIOS", plans["plan/boot-pxe"], "uefi=true boot_mode=bios",
			"params.boot_mode: is bios, and uefi is true: set only one of them"},
		{"version", plans["plan/upgrade"], "version=latest", `params.version: "latest" is not a version of Kubernetes: want one like 1.31.2`},
		{"light for ever", plans["plan/identify-on"], "for=5", `params.for: "5" is not a duration of 1s to 1h0m0s, such as 90s or 5m`},
		{"no light", plans["plan/identify-off"], "for=5m", `params.for: no step of plan "plan/identify-off" reads it; it reads: no parameters`},
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

// A run with a mistyped parameter or value is refused.
func TestWrongParamStartsNoRun(t *testing.T) {
	for _, params := range []map[string]string{{"imag": "debian"}, {"image": ""}, {"persistent": "maybe"}} {
		p := fsmtest.NewPeer()
		register(t, p, "m", ready)
		r := p.Do(&internalv1.StartRun{RunId: "run-1", MachineId: "m", RequestId: "r", Type: "REPAVE", Params: params})
		if r.Err == nil || r.Err.Code != fsm.InvalidArgument {
			t.Errorf("%v: got %v, want INVALID_ARGUMENT", params, r.Err)
		}
		w := p.Do(&internalv1.StartWave{MachineIds: []string{"m"}, Wave: &holdfastv1.Wave{WaveId: "w", Type: "REPAVE",
			Params: params}})
		if w.Err == nil || w.Err.Code != fsm.InvalidArgument {
			t.Errorf("wave, %v: got %v, want INVALID_ARGUMENT", params, w.Err)
		}
		if m, _ := p.View().Machine("m"); m.GetStatus().GetActiveRunId() != "" {
			t.Errorf("%v: the machine has run %q, want none", params, m.GetStatus().GetActiveRunId())
		}
	}
}

// TestValues checks each type of parameter, with values that a tolerant reader would take for
// something else.
func TestValues(t *testing.T) {
	integer := &holdfastv1.Param{Name: "p", Type: holdfastv1.Param_INTEGER, Min: new(int32(1)), Max: new(int32(60))}
	minutes := &holdfastv1.Param{Name: "p", Type: holdfastv1.Param_DURATION, Min: new(int32(1)), Max: new(int32(3600))}
	word := &holdfastv1.Param{Name: "p", Type: holdfastv1.Param_ENUM, Choices: []string{"keep", "bios"}}
	text := &holdfastv1.Param{Name: "p", Max: new(int32(10))}
	of := func(k holdfastv1.Param_Type) *holdfastv1.Param { return &holdfastv1.Param{Name: "p", Type: k} }
	boolean, name, address := of(holdfastv1.Param_BOOL), of(holdfastv1.Param_NAME), of(holdfastv1.Param_ADDRESS)
	for _, tt := range []struct {
		param *holdfastv1.Param
		bad   bool
		all   []string
	}{
		{boolean, false, []string{"true", "false"}},
		{boolean, true, []string{"", "True", "TRUE", "1", "0", "yes", "ja", "t", " true", "true ", "true\n", "on"}},
		{integer, false, []string{"1", "60"}},
		{integer, true, []string{"", "0", "61", "-5", "+5", "05", "5.0", "5s", "1e1", " 5", "soon", "0x5", "5_0",
			"99999999999999999999", "\u0665"}},
		{minutes, false, []string{"5m", "1s", "1h", "90s", "1m30s"}},
		{minutes, true, []string{"", "5", "0s", "2h", "-5m", "1.5s", "5 m", "5min", "forever"}},
		{word, false, []string{"keep", "bios"}},
		{word, true, []string{"", "BIOS", "efi", "keep,bios", "keep "}},
		{name, false, []string{"debian-13", "a/b:c", "x"}},
		{name, true, []string{"", " ", "a b", "$IMG", "a\nb", strings.Repeat("a", 129), "\u202ea"}},
		{of(holdfastv1.Param_URL), false, []string{"https://a/b.iso", "http://[::1]:80/x?y=z", "nfs://a/b"}},
		{of(holdfastv1.Param_URL), true, []string{"", "a/b.iso", "http//a/b", "https://u:p@a/b", "https://a:99999/b"}},
		{address, false, []string{"10.0.0.1", "host:22", "[::1]:22", "a.example"}},
		{address, true, []string{"", "root@h", "ssh://h", "h:99999", "h:", "h:0", "a b", "h/x"}},
		{text, false, []string{"a b", "\u00e4\u00f6"}},
		{text, true, []string{"", "  ", "a\nb", "a\x00b", "12345678901", "\u202eabc", "a\x1b"}},
		{&holdfastv1.Param{Name: "p", Multiline: true}, false, []string{"a\nb", "a\r\nb\t"}},
	} {
		for _, v := range tt.all {
			if got := fsm.CheckValue(tt.param, v); (got != "") != tt.bad {
				t.Errorf("%s %q: got %q, want a refusal: %t", tt.param.GetType(), v, got, tt.bad)
			}
		}
	}
}

// TestDeclaredParams checks the parameters that a plan of a user declares.
func TestDeclaredParams(t *testing.T) {
	script := &holdfastv1.Step{Name: "s", Kind: &holdfastv1.Step_Ssh{Ssh: &holdfastv1.SshCommand{Script: "x"}}}
	repave := &holdfastv1.Step{Name: "r", Kind: &holdfastv1.Step_Repave{Repave: &holdfastv1.RepaveImage{}}}
	fixed := &holdfastv1.Step{Name: "r", Kind: &holdfastv1.Step_Repave{Repave: &holdfastv1.RepaveImage{Image: "a"}}}
	for _, tt := range []struct {
		name  string
		param *holdfastv1.Param
		step  *holdfastv1.Step
		want  string // of the first violation
	}{
		{"of a command", &holdfastv1.Param{Name: "site"}, script, ""},
		{"narrowed", &holdfastv1.Param{Name: "image", Type: holdfastv1.Param_ENUM, Choices: []string{"a", "b"}, Default: "b"},
			repave, ""},
		{"of nobody", &holdfastv1.Param{Name: "site"}, repave,
			`plan.params[0].name: no step of plan "p" reads site, and none runs a command`},
		{"fixed", &holdfastv1.Param{Name: "image", Type: holdfastv1.Param_NAME}, fixed,
			`plan.params[0].name: step "r" sets image itself`},
		{"another type", &holdfastv1.Param{Name: "image", Type: holdfastv1.Param_BOOL}, repave,
			`plan.params[0].type: is BOOL, and step "r" reads it as NAME: use that, or ENUM`},
		{"a default that does not fit", &holdfastv1.Param{Name: "n", Type: holdfastv1.Param_BOOL, Default: "yes"}, script,
			`plan.params[0].default: "yes" is not true or false`},
		{"no choices", &holdfastv1.Param{Name: "n", Type: holdfastv1.Param_ENUM}, script,
			`plan.params[0].choices: are none: an ENUM has 1 to 100`},
		{"choices of text", &holdfastv1.Param{Name: "n", Choices: []string{"a"}}, script,
			`plan.params[0].choices: are for type ENUM, not TEXT`},
		{"a choice that its step refuses", &holdfastv1.Param{Name: "image", Type: holdfastv1.Param_ENUM,
			Choices: []string{"a b"}}, repave, `plan.params[0].choices: step "r" reads image, and the value "a b" is not a ` +
			`name of 1 to 128 letters, digits, '.', '_', '-', ':' or '/'`},
		{"bounds", &holdfastv1.Param{Name: "n", Type: holdfastv1.Param_INTEGER, Min: new(int32(3)), Max: new(int32(2))},
			script, `plan.params[0].max: 2 is less than min, 3`},
		{"required and a default", &holdfastv1.Param{Name: "n", Required: true, Default: "a"}, script,
			`plan.params[0].required: is true, and a default is set: set only one of them`},
		{"capitals", &holdfastv1.Param{Name: "Site"}, script,
			`plan.params[0].name: "Site" is not 1 to 64 lower-case letters, digits or '_', and a letter first`},
		{"unknown type", &holdfastv1.Param{Name: "n", Type: 99}, script, `plan.params[0].type: 99 is unknown`},
	} {
		got := ""
		for _, v := range fsm.ValidatePlan(&holdfastv1.Plan{PlanId: "p", Steps: []*holdfastv1.Step{tt.step},
			Params: []*holdfastv1.Param{tt.param}}) {
			if got == "" {
				got = v.Field + ": " + v.Description
			}
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// TestDefaultOfAPlan checks that a run has the default of its plan, and that the same request
// returns it.
func TestDefaultOfAPlan(t *testing.T) {
	p := fsmtest.NewPeer()
	register(t, p, "m", ready)
	do(t, p, &internalv1.CreatePlan{Plan: &holdfastv1.Plan{PlanId: "p", Steps: []*holdfastv1.Step{{
		Name: "r", Kind: &holdfastv1.Step_Repave{Repave: &holdfastv1.RepaveImage{}}}},
		Params: []*holdfastv1.Param{{Name: "image", Type: holdfastv1.Param_NAME, Default: "debian-13"}}}})
	start := &internalv1.StartRun{RunId: "run-1", MachineId: "m", RequestId: "r", PlanId: "p"}
	for range 2 {
		r := p.Do(start)
		run, _ := r.Value.(*holdfastv1.Run)
		if r.Err != nil || run.GetParams()["image"] != "debian-13" {
			t.Fatalf("got %v, %v, want image debian-13", r.Err, run.GetParams())
		}
		if want := "erases the disk and installs debian-13"; run.GetEffect() != want {
			t.Errorf("effect: got %q, want %q", run.GetEffect(), want)
		}
		start.RunId, start.Params = "run-2", nil
	}
}

func TestEffects(t *testing.T) {
	plans := map[string]*holdfastv1.Plan{}
	for _, p := range fsm.DefaultPlans() {
		plans[p.GetPlanId()] = p
	}
	const erases = "erases all disks; powers the machine off for its return"
	for _, tt := range []struct {
		plan   string
		params map[string]string
		want   fsm.Effect
	}{
		{"plan/rma", nil, fsm.Effect{Text: "does not erase the disks; powers the machine off for its return",
			Interrupts: true, Grave: true}},
		{"plan/rma", map[string]string{"wipe": "false"}, fsm.Effect{
			Text: "does not erase the disks; powers the machine off for its return", Interrupts: true, Grave: true}},
		{"plan/rma", map[string]string{"wipe": "true"},
			fsm.Effect{Text: erases, Destroys: true, Interrupts: true, Grave: true}},
		{"plan/rma-wipe", nil, fsm.Effect{Text: erases, Destroys: true, Interrupts: true, Grave: true}},
		{"plan/repave-join", map[string]string{"image": "debian-13"}, fsm.Effect{
			Text: "erases the disk and installs debian-13", Destroys: true, Interrupts: true, Grave: true}},
		{"plan/repave-join", nil, fsm.Effect{Text: "erases the disk and installs the image of the machine",
			Destroys: true, Interrupts: true, Grave: true}},
		{"plan/power-off", nil, fsm.Effect{Text: "interrupts the host", Interrupts: true}},
		{"plan/power-on", nil, fsm.Effect{Text: "does not interrupt the host"}},
		{"plan/inspect", nil, fsm.Effect{Text: "does not interrupt the host"}},
	} {
		if diff := cmp.Diff(tt.want, fsm.EffectOf(plans[tt.plan], tt.params)); diff != "" {
			t.Errorf("%s %v (-want +got):\n%s", tt.plan, tt.params, diff)
		}
	}
}
