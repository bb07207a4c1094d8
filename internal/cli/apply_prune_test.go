package cli_test

import (
	"os"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/clitest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func TestPrune(t *testing.T) {
	const file = "machine_id: m-123\nlabels: {env: prod}\n"
	const loss = "delete what the files no longer have (2): m-124 m-125"
	for _, tt := range []struct {
		name, args, in string
		answer         string // on a terminal
		refuse         bool   // updates
		code           int
		deleted        string
		out, err       string
	}{
		{"confirmed", "--prune -l site=fra", file, "2", false, app.ExitOK, "m-124 m-125",
			"0 created, 1 updated, 0 unchanged, 2 deleted",
			loss + "\nType 2 to confirm: "},
		{"--yes", "--prune -l site=fra --yes", file, "", false, app.ExitOK, "m-124 m-125", "machine m-125 deleted", ""},
		{"not confirmed", "--prune -l site=fra", file, "no", false, app.ExitError, "", "", "nothing was changed"},
		{"no terminal", "--prune -l site=fra", file, "", false, app.ExitUsage, "", "", loss + ": there is no terminal"},
		{"dry run", "--prune -l site=fra --dry-run", file, "", false, app.ExitError, "", "machine m-124 would be deleted",
			""},
		{"no machines in the files", "--prune -l site=fra", "plan_id: plan-new\nsteps: [{name: a, reboot: {}}]\n", "", false,
			app.ExitOK, "", "1 created, 0 updated, 0 unchanged\n", ""},
		{"a document fails", "--prune -l site=fra --yes", file, "", true, app.ExitConflict, "", "1 failed",
			"nothing is pruned"},
		{"another value", "--prune -l env=test --yes", file, "", false, app.ExitUsage, "", "",
			"machine m-123 has the label env=prod in its file, and -l is env=test"},
		{"no label", "--prune", file, "", false, app.ExitUsage, "", "",
			`--prune needs a label to delete by: -l key=value, got ""`},
		{"a selector", "--prune -l a!=b", file, "", false, app.ExitUsage, "", "", "--prune needs a label"},
		{"two equals signs", "--prune -l site==fra --yes", file, "", false, app.ExitUsage, "", "", "--prune needs a label"},
		{"without --prune", "-l a=b", file, "", false, app.ExitUsage, "", "", "-l and --yes go with --prune"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := clitest.Fixture()
			f.Refuse = func(r proto.Message) error {
				if _, ok := r.(*holdfastv1.UpdateMachineRequest); ok && tt.refuse {
					return clitest.Refusal(t, codes.FailedPrecondition, "it has an active run")
				}
				return nil
			}
			clitest.Start(t, f)
			name := t.TempDir() + "/site.yaml"
			if err := os.WriteFile(name, []byte(tt.in), 0o600); err != nil {
				t.Fatal(err)
			}
			c := clitest.Command{In: tt.answer + "\n", Terminal: tt.answer != "", Answers: tt.answer != ""}
			c.WantCode(t, c.Run(t, f, append([]string{"apply", "-f", name}, strings.Fields(tt.args)...)...), tt.code)
			clitest.WantIn(t, "stdout", c.Out.String(), tt.out)
			clitest.WantIn(t, "stderr", c.Err.String(), tt.err)
			var got []string
			for _, r := range clitest.Asked[*holdfastv1.DeleteMachineRequest](f) {
				got = append(got, r.GetMachineId())
			}
			if strings.Join(got, " ") != tt.deleted {
				t.Errorf("got deleted %v, want %s", got, tt.deleted)
			}
			for _, r := range clitest.Asked[*holdfastv1.UpdateMachineRequest](f) {
				if r.GetMachine().GetLabels()["site"] != "fra" {
					t.Errorf("got labels %v, want site=fra", r.GetMachine().GetLabels())
				}
			}
			for _, r := range clitest.Asked[*holdfastv1.ListMachinesRequest](f) {
				if r.GetFilter() != `labels."site" = "fra"` {
					t.Errorf("got filter %s", r.GetFilter())
				}
			}
		})
	}
}
