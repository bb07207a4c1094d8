package cli_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/clitest"
)

func TestCustomColumns(t *testing.T) {
	f := clitest.Start(t, clitest.Fixture())
	for _, tt := range []struct{ spec, want string }{
		{"ID:.machine_id,POOL:spec.pool", "ID      POOL\nm-123   "},
		{"ID:.machine_id,NONE:.labels.nothing", "ID      NONE\nm-123   -\n"},
		{"ID:{.machine_id}", "ID\nm-123\n"},
	} {
		var c clitest.Command
		c.WantCode(t, c.Run(t, f, "machine", "list", "--limit", "1", "-o", "custom-columns="+tt.spec), app.ExitOK)
		clitest.WantIn(t, tt.spec, c.Out.String(), tt.want)
	}
	for _, spec := range []string{"", "ID", "ID:", ":.machine_id", "ID:{.machine_id"} {
		var c clitest.Command
		c.WantCode(t, c.Run(t, f, "machine", "list", "-o", "custom-columns="+spec), app.ExitUsage)
	}
}

// TestUnknownPathsAreRefused checks that -o refuses a path that no resource has, like --sort-by,
// and takes one that this resource does not have.
func TestUnknownPathsAreRefused(t *testing.T) {
	f := clitest.Start(t, clitest.Fixture())
	for _, tt := range []struct{ format, want string }{
		{"custom-columns=ID:.machineid", `column ID: a machine has no field "machineid": did you mean machine_id?`},
		{"custom-columns=ID:.machine_id,R:.spec.rak", `column R: spec has no field "rak": did you mean rack?`},
		{"custom-columns=ID:.machine_id,R:.labels.none", ""},
		{"custom-columns=ID:.spec.rack.x", `nothing below the value`},
		{"jsonpath={.items[0].metadata.name}", `a list has no field "items": its only key is machines`},
		{"jsonpath={.machines[0].metadata.name}", `a machine has no field "metadata"`},
		{"jsonpath={.machines[*].machineid}", `did you mean machine_id?`},
		{"jsonpath={range .machines[*]}{.machineid}{end}", `did you mean machine_id?`},
		{`jsonpath={range .machines[*]}{.machine_id} {.spec.rack}{"\n"}{end}{.machines[0].machine_id}`, ""},
		{`jsonpath={range .machines[?(@.spec.rak=="r7")]}{.machine_id}{end}`, `did you mean rack?`},
		{`jsonpath={range .machines[?(@.spec.rack=="none")]}{.machine_id}{end}`, ""},
		{"jsonpath={.machines[0].agent.agent_version}", ""},
		{"jsonpath={..rack}", ""},
		{"jsonpath={.machines[0]['machine_id','x']}", ""},
		{"go-template={{.items}}", `a list has no field "items": its only key is machines`},
		{"go-template={{range .machines}}{{.machineId}}{{end}}", `did you mean machine_id?`},
		{"go-template={{range $i, $m := .machines}}{{$i}}{{$m.spec.rak}}{{end}}", `did you mean rack?`},
		{"go-template={{range .machines}}{{with .spec}}{{.rak}}{{end}}{{end}}", `did you mean rack?`},
		{"go-template={{range .machines}}{{if eq .spec.rak `r7`}}x{{end}}{{end}}", `did you mean rack?`},
		{"go-template={{range .machines}}{{.spec.rak | len}}{{else}}{{.nothing}}{{end}}", `did you mean rack?`},
		{"go-template={{(index .machines 0).machineid}}", `did you mean machine_id?`},
		{"go-template={{define `m`}}{{.machineid}}{{end}}{{range .machines}}{{template `m` .}}{{end}}", `did you mean machine_id?`},
		{"go-template={{define `m`}}{{template `m` .}}{{end}}{{if false}}{{template `m` .}}{{end}}", ""},
		{"go-template={{range .machines}}{{$.items}}{{end}}", `a list has no field "items"`},
		{"go-template={{range .machines}}{{.labels.none}} {{.spec.rack}} {{index .labels `x`}}{{end}}", ""},
		{"go-template={{$first := index .machines 0}}{{$first.machine_id}} {{len .machines}} {{printf `%v` .}}", ""},
	} {
		var c clitest.Command
		code := app.ExitOK
		if tt.want != "" {
			code = app.ExitUsage
		}
		c.WantCode(t, c.Run(t, f, "machine", "list", "-o", tt.format), code)
		clitest.WantIn(t, tt.format, c.Err.String(), tt.want)
	}
}

func TestContextOutput(t *testing.T) {
	env := map[string]string{"HOLDFAST_CONTEXTS": t.TempDir() + "/contexts.yaml"}
	run := func(want int, args ...string) string {
		t.Helper()
		c := clitest.Command{Env: env}
		c.WantCode(t, c.Run(t, nil, append([]string{"context"}, args...)...), want)
		return c.Out.String()
	}
	run(app.ExitNotFound, "current")
	run(app.ExitOK, "set", "lab", "--addr", "10.0.0.1:7400", "--token", "hf_secret")
	run(app.ExitOK, "set", "prod", "--addr", "10.0.0.2:7400")
	if diff := cmp.Diff("lab\n", run(app.ExitOK, "current")); diff != "" {
		t.Errorf("context current (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff("lab\nprod\n", run(app.ExitOK, "list", "-o", "name")); diff != "" {
		t.Errorf("context list -o name (-want +got):\n%s", diff)
	}
	json := run(app.ExitOK, "list", "-o", "json")
	clitest.WantIn(t, "JSON", json, `"name": "prod"`, `"current": true`, `"token_set": true`)
	if strings.Contains(json, "hf_secret") {
		t.Errorf("context list -o json: got the token in it:\n%s", json)
	}
}
