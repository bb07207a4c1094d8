package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/clitest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// changes returns the requests that change something.
func changes(f *clitest.Cluster) []string {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	var names []string
	for _, r := range f.Requests {
		only, _ := r.(interface{ GetValidateOnly() bool })
		switch name := string(proto.MessageName(r).Name()); {
		case only != nil && only.GetValidateOnly():
		case strings.HasPrefix(name, "Get"), strings.HasPrefix(name, "List"), strings.HasPrefix(name, "Watch"):
		default:
			names = append(names, name)
		}
	}
	return names
}

// consentCase is a command that asks for confirmation.
type consentCase struct {
	args, answer string // a right answer
	asks         string // the question, and the sentence without a terminal
	shows        string // by the dry run
}

func consentCases() []consentCase {
	const plan = "plan-repave-ubuntu-2204-v1"
	const service = "550e8400-e29b-41d4-a716-446655440000"
	return []consentCase{
		{"run start m-124 --plan " + plan, "m-124",
			"machine m-124, MAINTENANCE: " + plan + ": erases the disk and installs ubuntu-22.04",
			"1 machine: " + plan + ": erases the disk"},
		{"run start --selector phase=READY --plan " + plan, "3",
			"3 machines, 1 with an active run: " + plan + ": erases the disk and installs ubuntu-22.04",
			"3 machines, 1 with an active run: " + plan},
		{"run retry run-790", "m-125", "machine m-125, READY: " + plan + ": erases the disk", "1 machine: " + plan},
		{"machine delete m-124", "m-124", "delete machine m-124", "delete machine m-124"},
		{"machine delete m-123 m-124", "2", "delete 2 machines", "delete 2 machines (1 with an active run)"},
		{"pool delete pool-1", "pool-1", "delete pool pool-1", "delete pool pool-1"},
		{"plan delete " + plan, plan, "delete plan " + plan, "delete plan " + plan},
		{"token revoke tok-2", "tok-2", "revoke token tok-2", "revoke token tok-2"},
		{"node approve m-1 --workflow " + plan, "m-1", "approve node m-1: " + plan + " at its next network boot: erases",
			"approve node m-1: " + plan + ": erases the disk"},
		{"node approve m-1", "m-1", "approve node m-1: plan/repave-join at its next network boot: erases",
			"approve node m-1: plan/repave-join: erases the disk"},
		{"node state m-1 pending", "m-1", "approve node m-1: plan/repave-join at its next network boot: erases",
			"approve node m-1: plan/repave-join: erases the disk"},
		{"cluster-ref delete prod", "prod", "delete cluster prod", "delete cluster prod"},
		{"pool delete-provider acme", "acme", "delete provider acme", "delete provider acme"},
		{"service deregister " + service, service, "deregister service " + service, "deregister service " + service},
		{"machine set-phase m-125 retired", "m-125", "retire machine m-125, READY: RETIRED is final",
			"retire machine m-125, READY: RETIRED is final"},
		{"node state m-1 retired", "m-1", "retire node m-1: retired is final", "retire node m-1: retired is final"},
		{"run cancel run-789", "run-789", "cancel run run-789 (REPAVE, RUNNING); machine m-123 goes to MAINTENANCE",
			"cancel run run-789 (REPAVE, RUNNING); machine m-123"},
		{"run cancel --filter phase=RUNNING", "run-789", "cancel run run-789", "cancel run run-789"},
		{"wave cancel w-1", "w-1", "cancel wave w-1 (3 machines): waiting and not started: 1; active: 2, which are canceled",
			"cancel wave w-1 (3 machines)"},
		{"operator raft remove-peer peer-3", "peer-3",
			"remove peer peer-3 (voter, not alive) from the cluster: 2 of 3 voters remain", "remove peer peer-3"},
		{"operator raft remove-peer peer-2 --force", "peer-2", "remove peer peer-2 (voter, alive)", "remove peer peer-2"},
	}
}

// TestConsent checks that destructive commands ask on a terminal, require --yes elsewhere, and
// change nothing without it.
func TestConsent(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.snap")
	if err := os.WriteFile(file, clitest.SnapshotFile(t), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range append(consentCases(), consentCase{"operator snapshot restore --abandon-runs " + file, "c-1",
		"replace the state of", "replace the state of cluster c-1: 3 machines"}) {
		for _, how := range []struct {
			name     string
			args     string
			in       string
			terminal bool
			code     int
			changes  bool
			stderr   string
		}{
			{"right answer", "", tt.answer + "\n", true, app.ExitOK, true, "Type " + tt.answer + " to confirm: "},
			{"wrong answer", "", "y\n", true, app.ExitError, false,
				`: not confirmed: got "y", want "` + tt.answer + `": nothing`},
			{"end of input", "", "", true, app.ExitError, false, `not confirmed: got ""`},
			{"no terminal", "", tt.answer + "\n", false, app.ExitUsage, false,
				": there is no terminal to ask for confirmation: check with --dry-run, then pass --yes\n"},
			{"--yes", " --yes", "", false, app.ExitOK, true, ""},
			{"--dry-run", " --dry-run", "", false, app.ExitOK, false, "dry run: " + tt.shows},
			{"--dry-run --yes", " --dry-run --yes", "", false, app.ExitOK, false, "dry run: " + tt.shows},
		} {
			t.Run(tt.args+"/"+how.name, func(t *testing.T) {
				f := clitest.Fixture()
				f.Cluster.ClusterId, f.Cluster.FeatureLevel, f.Operator = "c-1", 3, &clitest.Operator{}
				if strings.Contains(tt.args, " --selector ") {
					f.Waves = &clitest.Waves{Ends: &holdfastv1.Wave{Phase: holdfastv1.Wave_SUCCEEDED, Succeeded: 3}}
				}
				if strings.HasPrefix(tt.args, "wave ") {
					f.Waves = &clitest.Waves{Wave: &holdfastv1.Wave{WaveId: "w-1", Total: 3, Active: 2, Waiting: 1}}
				}
				again := clitest.FailedRun()
				again.RunId, again.MachineId, again.FinishedAt = "run-790", "m-125", clitest.Ago(0)
				f.Runs = append(f.Runs, again)
				f.Plans = append(f.Plans, &holdfastv1.Plan{PlanId: "plan/repave-join", Steps: f.Plans[0].GetSteps()})
				f.Events, f.Open = []*holdfastv1.RunEvent{inWave(1, "m-123", holdfastv1.Run_SUCCEEDED),
					inWave(2, "m-124", holdfastv1.Run_SUCCEEDED), inWave(3, "m-125", holdfastv1.Run_SUCCEEDED)}, true
				clitest.Start(t, f)
				c := clitest.Command{In: how.in, Terminal: how.terminal, Answers: how.terminal}
				c.WantCode(t, c.Run(t, f, strings.Fields(tt.args+how.args)...), how.code)
				clitest.WantIn(t, "stderr", c.Err.String(), how.stderr)
				if how.terminal {
					clitest.WantIn(t, "question", c.Err.String(), tt.asks)
				}
				if got := changes(f); (len(got) > 0) != how.changes {
					t.Errorf("got changes %v, want some: %v", got, how.changes)
				}
			})
		}
	}
}

// TestConsentIsForDestructivePlans checks that other runs ask for nothing.
func TestConsentIsForDestructivePlans(t *testing.T) {
	f := clitest.Start(t, clitest.Fixture())
	var c clitest.Command
	c.WantCode(t, c.Run(t, f, "run", "start", "m-124", "--type", "REBOOT"), app.ExitOK)
	if n := len(clitest.Asked[*holdfastv1.StartRunRequest](f)); n != 1 {
		t.Errorf("got %d started runs, want 1", n)
	}
}
