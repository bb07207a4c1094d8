package cli_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/clitest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// asEditor returns a program that runs a script on the file $1. It counts its runs in $0.runs.
func asEditor(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "editor")
	if err := os.WriteFile(path, []byte("#!/bin/sh\necho >> $0.runs\n"+script+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestEdit(t *testing.T) {
	for _, tt := range []struct {
		name, args, script string
		code, runs         int
		stderr             string
	}{
		{"a change", "machine edit m-123", `sed -i 's/rack: r7/rack: r8/' "$1"`, app.ExitOK, 1, ""},
		{"no change", "machine edit m-123", "true", app.ExitOK, 1, "machine m-123 is unchanged\n"},
		{"an empty file", "machine edit m-123", `: > "$1"`, app.ExitOK, 1, "machine m-123 is unchanged\n"},
		{"mended", "machine edit m-123", `grep -q '^# .*did you mean rack' "$1" && sed -i 's/rak: r7/rack: r8/' "$1" ||
sed -i 's/rack: r7/rak: r7/' "$1"`, app.ExitOK, 2, ""},
		{"given up", "machine edit m-123", `sed -i 's/rack: r7/rak: r7/' "$1"`, app.ExitUsage, 2,
			`unknown key "rak" in "spec": did you mean rack?`},
		{"another id", "machine edit m-123", `sed -i 's/m-123/m-124/' "$1"`, app.ExitUsage, 2,
			"the text must have one machine with the id m-123"},
		{"no pool", "machine edit m-123", `sed -i 's/rack: r7/pool: nowhere/' "$1"`, app.ExitNotFound, 2,
			`there is no pool "nowhere"`},
		{"the editor fails", "machine edit m-123", "exit 3", app.ExitError, 1, "exit status 3"},
		{"no machine", "machine edit nobody", "true", app.ExitNotFound, 0, `machine "nobody" not found`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := clitest.Fixture()
			clitest.Start(t, f)
			t.Setenv("TMPDIR", t.TempDir())
			program := asEditor(t, tt.script)
			c := clitest.Command{Env: map[string]string{"EDITOR": program}}
			c.WantCode(t, c.Run(t, f, strings.Fields(tt.args)...), tt.code)
			clitest.WantIn(t, "stderr", c.Err.String(), tt.stderr)
			runs, _ := os.ReadFile(program + ".runs")
			if got := len(runs); got != tt.runs {
				t.Errorf("got %d runs of the editor, want %d; stderr:\n%s", got, tt.runs, c.Err.String())
			}
			got := clitest.Asked[*holdfastv1.UpdateMachineRequest](f)
			if stored := tt.code == app.ExitOK && tt.stderr == ""; stored != (len(got) == 1) {
				t.Fatalf("got requests %v", got)
			}
			if len(got) > 0 {
				if mask := strings.Join(got[0].GetUpdateMask().GetPaths(), " "); mask != "spec.rack" ||
					got[0].GetMachine().GetSpec().GetRack() != "r8" {
					t.Errorf("got mask %s and %v, want spec.rack r8", mask, got[0].GetMachine())
				}
			}
			left, _ := filepath.Glob(filepath.Join(os.Getenv("TMPDIR"), "holdfast-edit-*"))
			kept := regexp.MustCompile(`the edited text is in \S+\n`).MatchString(c.Err.String())
			if kept != (len(left) == 1) {
				t.Errorf("got files %v, stderr:\n%s", left, c.Err.String())
			}
		})
	}
}

// TestEditConflict checks that a change of the same field by another client is not overwritten.
func TestEditConflict(t *testing.T) {
	f := clitest.Fixture()
	reads := 0
	f.Refuse = func(r proto.Message) error {
		if _, ok := r.(*holdfastv1.GetMachineRequest); ok {
			if reads++; reads == 2 {
				f.Machines[0] = proto.CloneOf(f.Machines[0])
				f.Machines[0].Spec.Rack = "r9"
			}
		}
		return nil
	}
	clitest.Start(t, f)
	t.Setenv("TMPDIR", t.TempDir())
	c := clitest.Command{Env: map[string]string{"EDITOR": asEditor(t, `sed -i 's/rack: r7/rack: r8/' "$1"`)}}
	c.WantCode(t, c.Run(t, f, "machine", "edit", "m-123"), app.ExitConflict)
	clitest.WantIn(t, "stderr", c.Err.String(), `edit machine m-123: it was changed meanwhile: spec.rack: "r7" → "r9"`)
	if got := changes(f); len(got) > 0 {
		t.Errorf("got changes %v, want none", got)
	}
}

func TestEditPlanAndPool(t *testing.T) {
	f := clitest.Fixture()
	f.Plans = append(f.Plans, &holdfastv1.Plan{PlanId: "mine", Steps: []*holdfastv1.Step{{Name: "reboot",
		Kind: &holdfastv1.Step_Reboot{Reboot: &holdfastv1.Reboot{}}}}})
	f.Pools[0].Labels = map[string]string{"a": "b"}
	clitest.Start(t, f)
	t.Setenv("TMPDIR", t.TempDir())
	c := clitest.Command{Env: map[string]string{"EDITOR": asEditor(t,
		`sed -i 's/name: reboot/name: again/; s/: b$/: c/' "$1"`)}}
	c.WantCode(t, c.Run(t, f, "plan", "edit", "mine"), app.ExitOK)
	want := &holdfastv1.CreatePlanRequest{Replace: true, Plan: &holdfastv1.Plan{PlanId: "mine", Steps: []*holdfastv1.Step{
		{Name: "again", Kind: &holdfastv1.Step_Reboot{Reboot: &holdfastv1.Reboot{}}}}}}
	if diff := cmp.Diff([]*holdfastv1.CreatePlanRequest{want}, clitest.Asked[*holdfastv1.CreatePlanRequest](f),
		protocmp.Transform()); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
	c.WantCode(t, c.Run(t, f, "pool", "edit", "cpu"), app.ExitOK)
	pool := &holdfastv1.Pool{PoolId: "cpu", Provider: "generic", Labels: map[string]string{"a": "c"}}
	if diff := cmp.Diff([]*holdfastv1.CreatePoolRequest{{Pool: pool}}, clitest.Asked[*holdfastv1.CreatePoolRequest](f),
		protocmp.Transform()); diff != "" {
		t.Errorf("pool (-want +got):\n%s", diff)
	}
	// A refused plan opens the editor again.
	f.Refuse = clitest.Always(clitest.Refusal(t, codes.FailedPrecondition, "a run refers to it"))
	c = clitest.Command{Env: c.Env}
	c.WantCode(t, c.Run(t, f, "plan", "edit", "mine"), app.ExitConflict)
}
