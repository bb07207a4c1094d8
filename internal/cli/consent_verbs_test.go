package cli_test

import (
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/internal/cli"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
)

// testedInOtherFiles are the commands that ask for confirmation and have tests of their own.
var testedInOtherFiles = map[string]string{
	"apply":                     "TestPrune: asks before it deletes",
	"image delete":              "eachCommand",
	"machine power cycle":       "TestInServiceIsAsked",
	"machine power off":         "TestInServiceIsAsked",
	"machine drain":             "TestDrainVerbs",
	"machine uncordon":          "TestDrainVerbs",
	"operator recover":          "test/integrations",
	"operator snapshot restore": "TestConsent",
	"secret delete":             "eachCommand",
	"wave retry":                "TestLeaderWave",
	"wave start":                "TestLeaderWave",
	"webhook delete":            "eachCommand",
}

// quiet are the commands that change something and do not ask, with the reason: a slip costs no
// machine, run or quorum, and is easily undone.
var quiet = map[string]string{
	"cluster drill":                     "transfers the leadership, as a failover does; runs continue",
	"cluster-ref add":                   "adds, or replaces credentials; add again",
	"context delete":                    "a local file",
	"context set":                       "a local file",
	"context use":                       "a local file",
	"image add":                         "refuses an image of this name",
	"image apply":                       "stores a definition; active runs keep theirs",
	"login":                             "a local file",
	"console replay":                    "only reads",
	"session end":                       "the person signs in again",
	"peer admit":                        "the peer still needs a certificate; remove-peer takes it back",
	"logout":                            "a local file",
	"machine bmc-reset":                 "restarts the BMC, not the machine",
	"machine bmc-retry":                 "one login",
	"machine boot-device":               "set it again; nothing restarts",
	"machine console":                   "attaches, with an escape",
	"machine create":                    "adds",
	"machine edit":                      "asks an editor; edit again",
	"machine identify":                  "a light",
	"machine inspect":                   "a run that only reads",
	"machine inventory":                 "a run that only reads",
	"machine media eject":               "insert it again",
	"machine media insert":              "eject it again",
	"machine power on":                  "power off undoes it",
	"machine register":                  "adds or updates",
	"machine sel":                       "a run that only reads",
	"machine update":                    "update again",
	"node tag":                          "tag again",
	"operator autopilot set-config":     "set it again; peers are removed after the threshold at the earliest",
	"operator autopilot state":          "only reads",
	"operator clock reset":              "sets the present time",
	"operator raft transfer-leadership": "runs continue; transfer it back",
	"operator snapshot save":            "writes a local file",
	"plan apply":                        "a plan that a run uses never changes",
	"plan edit":                         "a plan that a run uses never changes",
	"plan release":                      "the brake holds the plan again after more failures",
	"pool create":                       "adds or updates",
	"pool edit":                         "edit again",
	"secret keygen":                     "writes a local file",
	"secret put":                        "adds a version",
	"secret rotate":                     "encrypts again; values stay",
	"token create":                      "adds; revoke it",
	"webhook put":                       "adds or updates",
}

// reading are the last words of commands that change nothing.
var reading = []string{"get", "list", "watch", "history", "why", "issues", "status", "explain", "version", "whoami",
	"top", "logs", "wait", "verify", "export", "check", "inspect", "debug", "list-peers", "get-config", "show",
	"failover-safe", "stalled", "providers", "validate", "current", "bash", "fish", "zsh", "powershell"}

// TestVerbsDeclareConsent checks that each command asks for confirmation, only reads, or
// declares in quiet why a slip is harmless.
func TestVerbsDeclareConsent(t *testing.T) {
	root := cli.Root(app.Streams{Out: io.Discard, Err: io.Discard, Getenv: func(string) string { return "" }})
	asking := map[string]bool{}
	for _, one := range consentCases() {
		cmd, _, err := root.Find(strings.Fields(one.args))
		if err != nil {
			t.Fatal(err)
		}
		asking[strings.TrimPrefix(cmd.CommandPath(), "holdfast ")] = true
	}
	for name := range testedInOtherFiles {
		asking[name] = true
	}
	var got []string
	for name, cmd := range leaves(root) {
		words := strings.Fields(name)
		asks := cmd.Flags().Lookup("yes") != nil
		if asks {
			got = append(got, name)
		}
		if _, silent := quiet[name]; !asks && !silent && !slices.Contains(reading, words[len(words)-1]) {
			t.Errorf("holdfast %s: no --yes: use consent, or declare in quiet why a slip is harmless", name)
		} else if asks && silent {
			t.Errorf("holdfast %s: asks, and is in quiet", name)
		}
	}
	for name := range quiet {
		if _, ok := leaves(root)[name]; !ok {
			t.Errorf("quiet: there is no command %q", name)
		}
	}
	slices.Sort(got)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(asking)), got); diff != "" {
		t.Errorf("commands with --yes (-tested +got):\n%s", diff)
	}
}

// leaves returns the commands with an action, by their names.
func leaves(cmd *cobra.Command) map[string]*cobra.Command {
	all := map[string]*cobra.Command{}
	for _, sub := range cli.Visible(cmd) {
		if sub.HasAvailableSubCommands() {
			maps.Copy(all, leaves(sub))
			continue
		}
		all[strings.TrimPrefix(sub.CommandPath(), "holdfast ")] = sub
	}
	return all
}
