package manifest

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func newMachine() *holdfastv1.Machine { return &holdfastv1.Machine{} }
func newPlan() *holdfastv1.Plan       { return &holdfastv1.Plan{} }

// sample is the machine of the document (bare-metal API §Examples).
const sample = `{
  "machine_id": "m-123",
  "labels": {
    "env": "prod",
    "role": "worker",
    "provider": "dc-1"
  },
  "spec": {
    "ssh_endpoint": "10.20.30.40:22",
    "bmc_endpoint": "10.20.30.41",
    "target_cluster_ref": "cluster-a",
    "mac_addresses": ["aa:bb:cc:dd:ee:ff"]
  },
  "status": {
    "phase": "READY",
    "conditions": [
      {"type": "Reachable", "status": true, "reason": "PingOK"},
      {"type": "BMCReachable", "status": true, "reason": "RedfishOK"},
      {"type": "InCustomerCluster", "status": false, "reason": "NotJoined"}
    ],
    "active_run_id": ""
  }
}`

func sampleMachine() *holdfastv1.Machine {
	return &holdfastv1.Machine{
		MachineId: "m-123",
		Labels:    map[string]string{"env": "prod", "role": "worker", "provider": "dc-1"},
		Spec: &holdfastv1.MachineSpec{SshEndpoint: "10.20.30.40:22", BmcEndpoint: "10.20.30.41",
			TargetClusterRef: "cluster-a", MacAddresses: []string{"aa:bb:cc:dd:ee:ff"}},
		Status: &holdfastv1.MachineStatus{Phase: holdfastv1.MachineStatus_READY, Conditions: []*holdfastv1.Condition{
			{Type: "Reachable", Status: true, Reason: "PingOK"},
			{Type: "BMCReachable", Status: true, Reason: "RedfishOK"},
			{Type: "InCustomerCluster", Status: false, Reason: "NotJoined"},
		}},
	}
}

func TestDecodeMachines(t *testing.T) {
	two := []*holdfastv1.Machine{{MachineId: "a"}, {MachineId: "b"}}
	for _, tt := range []struct {
		name, in string
		want     []*holdfastv1.Machine
	}{
		{"the sample of the specification", sample, []*holdfastv1.Machine{sampleMachine()}},
		{"tabs", strings.ReplaceAll(sample, "  ", "\t"), []*holdfastv1.Machine{sampleMachine()}},
		{"YAML documents", "---\nmachine_id: a\n---\n# nothing here\n---\nmachine_id: b\n", two},
		{"YAML list", "- machine_id: a\n- machine_id: b\n", two},
		{"YAML under a key", "machines:\n- machine_id: a\n- machine_id: b\n", two},
		{"JSON array", `[{"machine_id": "a"}, {"machine_id": "b"}]`, two},
		{"JSON under a key", `{"machines": [{"machine_id": "a"}, {"machine_id": "b"}]}`, two},
		{"JSON values in a row", "{\"machine_id\": \"a\"}\n{\"machine_id\": \"b\"}\n", two},
		{"YAML in flow style", "{machine_id: a}", two[:1]},
		{"JSON names", `{"machineId": "a"}`, two[:1]},
		{"ambiguous text",
			"machine_id: 0123\nlabels: {n: 1.50, ok: yes, off: false}\nspec: {rack: 07}\n",
			[]*holdfastv1.Machine{{MachineId: "0123", Labels: map[string]string{"n": "1.50", "ok": "yes", "off": "false"},
				Spec: &holdfastv1.MachineSpec{Rack: "07"}}}},
		{"an alias", "- machine_id: a\n  labels: &l {env: prod}\n- machine_id: b\n  labels: *l\n", []*holdfastv1.Machine{
			{MachineId: "a", Labels: map[string]string{"env": "prod"}}, {MachineId: "b",
				Labels: map[string]string{"env": "prod"}}}},
		{"nulls and a time", `{"machine_id": "a", "spec": null, "labels": null, "created_at": null}`, two[:1]},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Decode([]Source{{"f", []byte(tt.in)}}, "machines", newMachine)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, protocmp.Transform()); diff != "" {
				t.Errorf("machines (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecodePlan(t *testing.T) {
	got, err := Decode([]Source{{"f", []byte(`
plan_id: plan-repave-ubuntu-2204-v1
steps:
- name: set-netboot
  timeout_seconds: 60
  max_retries: 0
  netboot: {mode: PXE, uefi: true}
- name: verify
  verify:
    cluster_ref: cluster-a
    timeout: 90s
- name: setup
  ssh:
    script: |
      set -e
      echo done
`)}}, "plans", newPlan)
	want := []*holdfastv1.Plan{{PlanId: "plan-repave-ubuntu-2204-v1", Steps: []*holdfastv1.Step{
		{Name: "set-netboot", TimeoutSeconds: 60, MaxRetries: proto.Int32(0),
			Kind: &holdfastv1.Step_Netboot{Netboot: &holdfastv1.SetNetboot{Mode: "PXE", Uefi: true}}},
		{Name: "verify", Kind: &holdfastv1.Step_Verify{Verify: &holdfastv1.VerifyInCluster{ClusterRef: "cluster-a",
			Timeout: got[0].GetSteps()[1].GetVerify().GetTimeout()}}},
		{Name: "setup", Kind: &holdfastv1.Step_Ssh{Ssh: &holdfastv1.SshCommand{Script: "set -e\necho done\n"}}},
	}}}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" || err != nil {
		t.Errorf("got error %v, plan (-want +got):\n%s", err, diff)
	}
	if d := got[0].GetSteps()[1].GetVerify().GetTimeout().AsDuration().Seconds(); d != 90 {
		t.Errorf("got timeout %vs, want 90s", d)
	}
}

func TestDecodeErrors(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		want     string
	}{
		{"unknown key", "machine_id: a\nspec:\n  ssh_endpont: 10.0.0.1\n",
			`f:3: unknown key "ssh_endpont" in "spec": did you mean ssh_endpoint?`},
		{"unknown key on top", "hostname: a\n", `f:1: unknown key "hostname"`},
		{"unknown key in JSON", "{\n \"machine_id\": \"a\",\n \"lables\": {}\n}",
			`f:3: unknown key "lables": did you mean labels?`},
		{"unknown key in a list", "machine_id: a\nstatus:\n  conditions:\n  - type: x\n    state: true\n",
			`f:5: unknown key "state" in "status.conditions[0]"`},
		{"in the second document", "machine_id: a\n---\nmachine_id: b\nrack: r1\n", `f:4: unknown key "rack"`},
		{"octal", "machine_id: a\nrevision: 010\n", `f:2: revision: "010" is not written as a decimal number: write digits alone`},
		{"hexadecimal", "machine_id: a\nrevision: 0x10\n", `f:2: revision: "0x10" is not written as a decimal number`},
		{"a sign", "machine_id: a\nrevision: +5\n", `f:2: revision: "+5" is not written as a decimal number`},
		{"an underscore", "machine_id: a\nrevision: 1_000\n", `f:2: revision: "1_000" is not written as a decimal number`},
		{"key twice", "machine_id: a\nlabels: {}\nmachine_id: b\n", `f:3: duplicate key "machine_id": first on line 1`},
		{"key twice in JSON", "{\"machine_id\": \"a\",\n\"machine_id\": \"b\"}",
			`f:2: duplicate key "machine_id": first on line 1`},
		{"not a phase", "machine_id: a\nstatus:\n  phase: REDY\n", `f:3: status.phase: "REDY" is not one of FACTORY_READY, READY,`},
		{"not a bool", "machine_id: a\nstatus:\n  conditions:\n    - {type: x, status: maybe}\n",
			`f:4: status.conditions[0].status: "maybe" is not true or false`},
		{"mapping for text", "machine_id:\n  x: 1\n", `f:2: "machine_id" must be a single value`},
		{"text for a list", "spec:\n  mac_addresses: aa\n", `f:2: "spec.mac_addresses" must be a list`},
		{"text for a mapping", "machine_id: a\nspec: b\n", `f:2: "spec" must be a mapping of keys to values`},
		{"text for a document", "hello\n", `f:1: a document must be a mapping of keys to values`},
		{"merge key", "machine_id: a\nlabels:\n  <<: {a: b}\n", `f:3: key "<<" is not supported: write it out`},
		{"recursive anchor", "labels: &l\n  a: *l\n", `f:1: "labels.a" must be a single value`},
		{"nothing", "# nothing\n", `f: there is no document in it`},
		{"broken YAML", "machine_id: [\n", `f:2: a value is missing, or a bracket is not closed`},
		{"less indentation", "spec:\n    pool: a\n  rack: b\n",
			`f:3: this line does not fit those above: indent the keys of one mapping equally`},
		{"more indentation", "machine_id: m-1\n spec: {}\n",
			`f:2: a key is not expected here: indent the keys of one mapping equally`},
		{"indentation on the first line", "a: b: c\n", `f:1: a key is not expected here`},
		{"a tab", "spec:\n\tpool: a\n", `f:2: a value cannot begin like this: indent with spaces, not tabs`},
		{"no colon", "machine_id: m-1\nspec\n", `f:2: this line has no colon: write it as "key: value"`},
		{"a list", "labels:\n  - a: b\n   c: d\n", `f:2: this list has a line that does not fit`},
		{"unknown anchor", "a: *b\n", `f:1: unknown anchor 'b' referenced`},
		{"broken JSON", "{\n\"machine_id\": \"a\",,\n}", `f:2: invalid JSON: unexpected ','`},
		{"half JSON", "{\"machine_id\": \"a\"\n", `f:1: invalid JSON: it ends in the middle of a value`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Decode([]Source{{"f", []byte(tt.in)}}, "machines", newMachine)
			if _, ok := errors.AsType[*Error](err); !ok {
				t.Fatalf("got error %v, want an *Error", err)
			}
			if !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("got error %q, want %q", err, tt.want)
			}
		})
	}
}

func TestErrorNamesStandardInput(t *testing.T) {
	_, err := Decode([]Source{{"-", []byte("x: 1")}}, "machines", newMachine)
	if want := `standard input:1: unknown key "x": want one of machine_id, `; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got error %v, want %q", err, want)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(sample))
	f.Add([]byte("machines: [{machine_id: a}]\n---\n- &x {labels: {a: 0x1F}}\n- *x\n"))
	f.Add([]byte("{\"machine_id\": \"\\ud83d\\ude00\", \"spec\": {\"mac_addresses\": [null]}}"))
	f.Add([]byte("a: &a [*a, *a]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		machines, err := Decode([]Source{{"f", data}}, "machines", newMachine)
		if err != nil {
			return
		}
		// Decoded machines can be encoded and decoded again.
		raw, err := List("machines", machines)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Decode([]Source{{"f", raw}}, "machines", newMachine)
		if err != nil {
			t.Fatalf("decode %s again: %v", raw, err)
		}
		if diff := cmp.Diff(machines, again, protocmp.Transform()); diff != "" {
			t.Errorf("decoded again (-first +second):\n%s", diff)
		}
	})
}
