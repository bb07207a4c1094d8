package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/clitest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// site has documents of all kinds: new, different, and unchanged in the fixture.
const site = `machine_id: m-123
labels: {env: test, tier: a}
spec: {rack: r8, mac_addresses: [AA-BB-CC-DD-EE-FF], location: fra}
status: {phase: READY}
---
machines:
- machine_id: m-new
  spec: {rack: r1}
- machine_id: m-124
  spec: {provider: fake}
---
plan_id: plan/reboot
display_name: Reboot
steps: [{name: reboot, reboot: {mode: bmc}}]
---
plan_id: plan-new
steps: [{name: a, reboot: {}}]
---
name: debian
arch: amd64
format: QCOW2
compression: NONE
disk: {sha256: ` + "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" + `, size_bytes: 3145728}
`

const siteDone = `plan plan/reboot updated
  steps[0].reboot.mode: (none) → "bmc"
plan plan-new created
machine m-123 updated
  labels.env: "prod" → "test"
  labels.tier: (none) → "a"
  spec.rack: "r7" → "r8"
machine m-new created
2 created, 2 updated, 2 unchanged
`

func TestApply(t *testing.T) {
	f := clitest.Start(t, clitest.Fixture())
	c := clitest.Command{In: site}
	c.WantCode(t, c.Run(t, f, "apply", "-f", "-", "--dry-run"), app.ExitError)
	want := strings.NewReplacer(" updated\n", " would be updated\n", " created\n", " would be created\n",
		"2 created, 2 updated", "dry run: 2 to create, 2 to update").Replace(siteDone)
	if diff := cmp.Diff(want, c.Out.String()); diff != "" {
		t.Errorf("dry run (-want +got):\n%s", diff)
	}
	made := clitest.Asked[*holdfastv1.RegisterMachineRequest](f)
	if n := len(made) + len(clitest.Asked[*holdfastv1.UpdateMachineRequest](f)); n > 0 {
		t.Errorf("got %d written machines, want 0", n)
	}
	for _, r := range clitest.Asked[*holdfastv1.CreatePlanRequest](f) {
		if !r.GetValidateOnly() {
			t.Errorf("dry run: got stored plan %s", r.GetPlan().GetPlanId())
		}
	}
	for _, r := range clitest.Asked[*holdfastv1.AddImageRequest](f) {
		if !r.GetValidateOnly() {
			t.Errorf("dry run: got stored image %s", r.GetImage().GetName())
		}
	}

	c = clitest.Command{In: site}
	c.WantCode(t, c.Run(t, f, "apply", "-f", "-"), app.ExitOK)
	if diff := cmp.Diff(siteDone, c.Out.String()); diff != "" {
		t.Errorf("out (-want +got):\n%s", diff)
	}
	updates := clitest.Asked[*holdfastv1.UpdateMachineRequest](f)
	if len(updates) != 1 {
		t.Fatalf("got %d updates of machines, want 1", len(updates))
	}
	if diff := cmp.Diff(&fieldmaskpb.FieldMask{Paths: []string{"labels.env", "labels.tier", "spec.rack"}},
		updates[0].GetUpdateMask(), protocmp.Transform()); diff != "" {
		t.Errorf("mask (-want +got):\n%s", diff)
	}
	if m := updates[0].GetMachine(); m.GetSpec().GetRack() != "r8" || m.GetLabels()["tier"] != "a" {
		t.Errorf("got update %v, want that of the file", m)
	}
	var stored []string
	for _, r := range clitest.Asked[*holdfastv1.CreatePlanRequest](f) {
		if !r.GetValidateOnly() {
			stored = append(stored, r.GetPlan().GetPlanId())
		}
	}
	if len(stored) != 2 {
		t.Errorf("got stored plans %v, want two", stored)
	}
}

func TestApplyPools(t *testing.T) {
	f := clitest.Start(t, clitest.Fixture())
	old := f.Pools[0]
	c := clitest.Command{In: "pool_id: " + old.GetPoolId() + "\ngpu_type: H200\n---\npool_id: another\n"}
	c.WantCode(t, c.Run(t, f, "apply", "-f", "-"), app.ExitOK)
	clitest.WantIn(t, "out", c.Out.String(), `→ "H200"`, "pool another created", "1 created, 1 updated, 0 unchanged")
	for _, r := range clitest.Asked[*holdfastv1.CreatePoolRequest](f) {
		if p := r.GetPool(); p.GetPoolId() == old.GetPoolId() && (p.GetProvider() != old.GetProvider() ||
			!cmp.Equal(p.GetLabels(), old.GetLabels()) && len(old.GetLabels()) > 0) {
			t.Errorf("got request %v, want the fields missing in the file as in %v", p, old)
		}
	}
}

// TestApplyInOrder applies documents in the order of their kinds, whatever the order in the file:
// a pool and an image must be there before a machine or plan names them. Clusters and providers are
// not documents: apply reports the server's refusal of a machine that names one that is not there.
func TestApplyInOrder(t *testing.T) {
	docs := map[byte]string{
		'p': "pool_id: new\n",
		'i': "name: new\nformat: RAW\n",
		'l': "plan_id: l\nsteps: [{name: a, repave: {image: new}}]\n",
		'm': "machine_id: m-new\nspec: {pool: new, provider: dc-9, target_cluster_ref: prod}\n",
	}
	const refused = `machine.spec.provider: "dc-9" is not configured`
	want := []string{"CreatePoolRequest", "AddImageRequest", "CreatePlanRequest", "RegisterMachineRequest"}
	for _, tt := range []struct {
		order string
		err   string // of the server, for the machine
	}{{"pilm", ""}, {"mlip", ""}, {"lmpi", ""}, {"impl", ""}, {"mpil", refused}} {
		t.Run(tt.order+tt.err, func(t *testing.T) {
			f := clitest.Fixture()
			f.Refuse = func(r proto.Message) error {
				if _, ok := r.(*holdfastv1.RegisterMachineRequest); ok && tt.err != "" {
					return clitest.Refusal(t, codes.InvalidArgument, tt.err)
				}
				return nil
			}
			clitest.Start(t, f)
			var c clitest.Command
			for _, k := range []byte(tt.order) {
				c.In += "---\n" + docs[k]
			}
			code := app.ExitOK
			if tt.err != "" {
				code = app.ExitUsage
			}
			c.WantCode(t, c.Run(t, f, "apply", "-f", "-"), code)
			clitest.WantIn(t, "stderr", c.Err.String(), tt.err)
			if diff := cmp.Diff(want, slices.Compact(changes(f))); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

func TestApplyReportsFailures(t *testing.T) {
	f := clitest.Fixture()
	f.Refuse = func(req proto.Message) error {
		if r, ok := req.(*holdfastv1.CreatePlanRequest); ok && r.GetPlan().GetPlanId() == "plan/reboot" {
			return clitest.Refusal(t, codes.FailedPrecondition, "a run refers to it")
		}
		return nil
	}
	clitest.Start(t, f)
	c := clitest.Command{In: site}
	c.WantCode(t, c.Run(t, f, "apply", "-f", "-"), app.ExitConflict)
	clitest.WantIn(t, "out", c.Out.String(), "2 created, 1 updated, 2 unchanged, 1 failed")
	clitest.WantIn(t, "stderr", c.Err.String(), "apply -: 1 of 6 failed:", "apply plan plan/reboot: a run refers to it")

	for in, want := range map[string]string{
		"spec: {rack: r7}\n":                "apply: standard input:1: the document has no id",
		"machine_id: m-1\nspek: {}\n":       `unknown key "spek": did you mean spec?`,
		"plan_id: a\n---\nmachines: [{}]\n": "standard input:3: the document has no id: give it one of machine_id",
	} {
		c := clitest.Command{In: in}
		c.WantCode(t, c.Run(t, f, "apply", "-f", "-"), app.ExitUsage)
		clitest.WantIn(t, "stderr", c.Err.String(), want)
	}
	c = clitest.Command{}
	c.WantCode(t, c.Run(t, f, "apply"), app.ExitUsage)
}

// TestApplyFiles reads several files and directories, and stores the documents of all.
func TestApplyFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	one := write("one.yaml", "machine_id: m-1\n")
	site := filepath.Dir(write("site/b.yaml", "machine_id: m-3\n"))
	write("site/a.json", `{"machine_id": "m-2"}`)
	write("site/README", "not a document")
	write("site/racks/r7.yml", "machine_id: m-4\n")
	again := write("again.yaml", "---\nmachine_id: m-1\n")
	for _, tt := range []struct {
		name string
		args []string
		code int
		want string // on standard output, or in the error
	}{
		{"two files", []string{"-f", one, "-f", site + "/b.yaml"}, app.ExitOK, "m-1\nm-3\n"},
		{"a directory", []string{"-f", site}, app.ExitOK, "m-2\nm-3\n"},
		{"its directories too", []string{"-f", site, "-R"}, app.ExitOK, "m-2\nm-3\nm-4\n"},
		{"a document twice", []string{"-f", one, "-f", again}, app.ExitUsage,
			again + `:2: duplicate machine_id "m-1": first in ` + one + ":1"},
		{"an empty directory", []string{"-f", t.TempDir()}, app.ExitUsage, "it has no file *.yaml, *.yml or *.json"},
		{"nothing there", []string{"-f", filepath.Join(dir, "none")}, app.ExitUsage, "no such file"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := clitest.Start(t, clitest.Fixture())
			var c clitest.Command
			c.WantCode(t, c.Run(t, f, append([]string{"apply", "-o", "name"}, tt.args...)...), tt.code)
			if tt.code != app.ExitOK {
				clitest.WantIn(t, "stderr", c.Err.String(), tt.want)
				return
			}
			if diff := cmp.Diff(tt.want, c.Out.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestApplyOwnedTwice checks that two machines with one MAC address, BMC or serial number in one
// apply are refused, by a dry run too, and nothing is stored.
func TestApplyOwnedTwice(t *testing.T) {
	for _, tt := range []struct{ name, first, second, want string }{
		{"a MAC address in other notations", `{mac_addresses: ["52:54:00:00:0a:01"]}`,
			`{mac_addresses: ["52-54-00-00-0A-01"]}`,
			"machine m-92 has the MAC address 52:54:00:00:0a:01 of machine m-91"},
		{"a BMC", `{bmc_endpoint: "https://BMC-1"}`, `{bmc_endpoint: "https://bmc-1"}`,
			"BMC endpoint bmc-1 of machine m-91"},
		{"a BMC in another spelling", `{bmc_endpoint: "https://10.0.0.1:443/"}`, `{bmc_endpoint: "10.0.0.1"}`,
			"BMC endpoint 10.0.0.1 of machine m-91"},
		{"a serial number", `{serial: S1}`, `{serial: S1}`, "serial number S1 of machine m-91"},
	} {
		for _, flag := range []string{"", " --dry-run"} {
			f := clitest.Start(t, clitest.Fixture())
			c := clitest.Command{In: "machine_id: m-91\nspec: " + tt.first + "\n---\n" +
				"machine_id: m-92\nspec: " + tt.second + "\n"}
			c.WantCode(t, c.Run(t, f, strings.Fields("apply -f -"+flag)...), app.ExitUsage)
			clitest.WantIn(t, tt.name+flag, c.Err.String(), tt.want)
			if got := changes(f); len(got) > 0 {
				t.Errorf("%s: got changes %v, want none", tt.name, got)
			}
		}
	}
}

// TestApplyDryRunWithoutDifferences returns 0, so that scripts can test for drift.
func TestApplyDryRunWithoutDifferences(t *testing.T) {
	f := clitest.Start(t, clitest.Fixture())
	c := clitest.Command{In: "machine_id: m-124\n"}
	c.WantCode(t, c.Run(t, f, "apply", "-f", "-", "--dry-run"), app.ExitOK)
	clitest.WantIn(t, "stdout", c.Out.String(), "0 to create, 0 to update, 1 unchanged")
}

// appliedDocument is the result of apply, as scripts read it.
type appliedDocument struct {
	DryRun  bool              `json:"dry_run"`
	Applied []appliedResource `json:"applied"`
}

type appliedResource struct {
	Kind    string          `json:"kind"`
	ID      string          `json:"id"`
	Action  string          `json:"action"`
	Changes []appliedChange `json:"changes"`
	Error   string          `json:"error"`
}

type appliedChange struct {
	Field string `json:"field"`
	Was   string `json:"was"`
	Now   string `json:"now"`
}

// Scripts get each document with its result, and the same exit code.
func TestApplyForScripts(t *testing.T) {
	f := clitest.Fixture()
	f.Refuse = func(req proto.Message) error {
		if r, ok := req.(*holdfastv1.CreatePlanRequest); ok && r.GetPlan().GetPlanId() == "plan/reboot" {
			return clitest.Refusal(t, codes.FailedPrecondition, "a run refers to it")
		}
		return nil
	}
	clitest.Start(t, f)
	c := clitest.Command{In: site}
	c.WantCode(t, c.Run(t, f, "apply", "-f", "-", "--dry-run", "-o", "json"), app.ExitConflict)
	var got appliedDocument
	if err := json.Unmarshal([]byte(c.Out.String()), &got); err != nil {
		t.Fatalf("%v in %s", err, c.Out.String())
	}
	want := appliedDocument{DryRun: true, Applied: []appliedResource{
		{Kind: "image", ID: "debian", Action: "unchanged"},
		{Kind: "plan", ID: "plan/reboot", Action: "failed", Error: "apply plan plan/reboot: a run refers to it"},
		{Kind: "plan", ID: "plan-new", Action: "created"},
		{Kind: "machine", ID: "m-123", Action: "updated", Changes: []appliedChange{
			{Field: "labels.env", Was: `"prod"`, Now: `"test"`}, {Field: "labels.tier", Now: `"a"`},
			{Field: "spec.rack", Was: `"r7"`, Now: `"r8"`}}},
		{Kind: "machine", ID: "m-new", Action: "created"},
		{Kind: "machine", ID: "m-124", Action: "unchanged"},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	clitest.WantIn(t, "stderr", c.Err.String(), "apply -: 1 of 6 failed:")

	c = clitest.Command{In: site}
	c.WantCode(t, c.Run(t, f, "apply", "-f", "-", "--dry-run", "-o", "name"), app.ExitConflict)
	if got, want := c.Out.String(), "plan-new\nm-123\nm-new\n"; got != want {
		t.Errorf("-o name: got %q, want %q", got, want)
	}
	c = clitest.Command{In: site}
	c.WantCode(t, c.Run(t, f, "apply", "-f", "-", "--dry-run", "-o", "jsonpath={.applied[3].changes[*].field}"),
		app.ExitConflict)
	if got, want := strings.TrimSpace(c.Out.String()), "labels.env labels.tier spec.rack"; got != want {
		t.Errorf("-o jsonpath: got %q, want %q", got, want)
	}
}
