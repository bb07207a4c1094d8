package cli_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/clitest"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func TestExpressions(t *testing.T) {
	f := clitest.Start(t, clitest.Fixture())
	for _, tt := range []struct{ args, format, want string }{
		{"machine list", `jsonpath={.machines[*].machine_id}`, "m-123 m-124 m-125\n"},
		{"machine list", `jsonpath={.machines[?(@.status.phase=="READY")].machine_id}`, "m-125\n"},
		{"machine get m-123", "jsonpath=status.phase", "PROVISIONING\n"},
		{"machine get m-123", `jsonpath={.labels.env}`, "prod\n"},
		{"run list", `go-template={{range .runs}}{{.run_id}} {{.phase}};{{end}}`, "run-789 RUNNING;run-788 FAILED;\n"},
		{"token list", "jsonpath={.tokens[0].name}", f.Tokens[0].GetName() + "\n"},
		{"cluster status", "jsonpath=leader", "peer-1\n"},
		{"machine why m-123", "jsonpath=wait.kind", "INSTALLER\n"},
		{"machine why m-123", "jsonpath=wait.sentence", "the installer's reports\n"},
		{"version", "jsonpath={.client.go}", "go"},
	} {
		var c clitest.Command
		c.WantCode(t, c.Run(t, f, append(strings.Fields(tt.args), "-o", tt.format)...), app.ExitOK)
		if got := c.Out.String(); got != tt.want && (tt.args != "version" || !strings.HasPrefix(got, tt.want)) {
			t.Errorf("%s -o %s: got %q, want %q", tt.args, tt.format, got, tt.want)
		}
	}
	for format, want := range map[string]string{
		"jsonpath={.a": "parse the path", "jsonpath=": "the expression is missing", "go-template={{": "parse the template",
		"xml": "is not one of table, wide, json, yaml, name, jsonpath=…, go-template=…",
	} {
		var c clitest.Command
		c.WantCode(t, c.Run(t, f, "machine", "list", "-o", format), app.ExitUsage)
		clitest.WantIn(t, format, c.Err.String(), want)
	}
}

func TestSortBy(t *testing.T) {
	f := clitest.Fixture()
	f.Machines = append(f.Machines, &holdfastv1.Machine{MachineId: "m-9", Spec: &holdfastv1.MachineSpec{Rack: "r10"},
		Revision: 1})
	f = clitest.Start(t, f)
	for _, tt := range []struct{ args, want, note string }{
		{"--sort-by machine_id", "m-9 m-123 m-124 m-125", ""},
		{"--sort-by -machine_id", "m-125 m-124 m-123 m-9", ""},
		{"--sort-by rack", "m-123 m-9 m-124 m-125", ""},
		{"--sort-by -revision --limit 2", "m-123 m-124", "only the first 2 are shown"},
	} {
		var c clitest.Command
		c.WantCode(t, c.Run(t, f, append([]string{"machine", "list", "-o", "name"}, strings.Fields(tt.args)...)...),
			app.ExitOK)
		if diff := cmp.Diff(tt.want, strings.Join(strings.Fields(c.Out.String()), " ")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.args, diff)
		}
		clitest.WantIn(t, tt.args, c.Err.String(), tt.note)
	}
	for args, want := range map[string]string{
		"machine list --sort-by racks":    `Machine has no field "racks"`,
		"machine list --sort-by labels":   "name a key: labels.KEY",
		"machine list -w --sort-by rack":  "omit --sort-by or --watch",
		"machine watch --sort-by rack":    "machine watch: a watch prints changes in their order: omit --sort-by",
		"run list --sort-by steps":        "cannot be sorted by",
		"machine history m-1 --sort-by x": `HistoryEntry has no field "x"`,
	} {
		var c clitest.Command
		c.WantCode(t, c.Run(t, f, strings.Fields(args)...), app.ExitUsage)
		clitest.WantIn(t, args, c.Err.String(), want)
	}
}

// A watch without a limit must not grow with each resource that it has shown.
func TestFirstOf(t *testing.T) {
	all, two := output.FirstOf(0), output.FirstOf(2)
	ids := make([]string, 1000)
	for i := range ids {
		ids[i] = strconv.Itoa(i)
	}
	next := 0
	if n := testing.AllocsPerRun(1, func() {
		for range len(ids) / 2 {
			all(ids[next])
			next++
		}
	}); n > 0 {
		t.Errorf("without a limit: got %v allocations for %d ids, want none", n, len(ids)/2)
	}
	for _, tt := range []struct {
		id   string
		want bool
	}{{"a", true}, {"b", true}, {"c", false}, {"a", true}} {
		if got := two(tt.id); got != tt.want {
			t.Errorf("limit 2, id %s: got %v, want %v", tt.id, got, tt.want)
		}
	}
}

// Ids come from the server, without those that are already in the arguments.
func TestCompletionOfIDs(t *testing.T) {
	f := clitest.Start(t, clitest.Fixture())
	for args, want := range map[string]string{
		"machine get ":          "m-123 m-124 m-125",
		"machine delete m-124 ": "m-123 m-125",
		"run get ":              "run-789 run-788",
		"machine history ":      "m-123 m-124 m-125",
		"plan get ":             "plan-repave-ubuntu-2204-v1 plan/reboot",
		"machine get m-123 ":    "",
	} {
		var c clitest.Command
		words := strings.Split(args, " ")
		c.WantCode(t, c.Run(t, f, append([]string{"__complete"}, words...)...), app.ExitOK)
		var got []string
		for line := range strings.Lines(c.Out.String()) {
			if line = strings.TrimSpace(line); !strings.HasPrefix(line, ":") {
				got = append(got, line)
			}
		}
		if diff := cmp.Diff(want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", args, diff)
		}
	}
}
