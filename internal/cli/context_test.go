package cli_test

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/clitest"
	"github.com/holdfast-metal/holdfast/internal/cli/profile"
)

func TestContexts(t *testing.T) {
	f := clitest.Start(t, clitest.Fixture())
	home := t.TempDir()
	path := filepath.Join(home, ".config", "holdfast", "config.yaml")
	run := func(want int, in string, env map[string]string, args ...string) *clitest.Command {
		t.Helper()
		c := &clitest.Command{In: in, Env: map[string]string{"HOME": home}}
		maps.Copy(c.Env, env)
		c.WantCode(t, c.Run(t, nil, args...), want)
		return c
	}
	run(app.ExitOK, "", nil, "context", "set", "lab", "--addr", f.Addr)
	run(app.ExitOK, "s3cret\n", nil, "context", "set", "prod", "--addr", "127.0.0.1:1,127.0.0.1:2", "--token", "-")

	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("config file: got %v (%v), want mode 0600", info.Mode(), err)
	}
	list := run(app.ExitOK, "", nil, "context", "list").Out.String()
	var rows [][]string
	for line := range strings.Lines(list) {
		rows = append(rows, strings.Fields(line))
	}
	wantRows := [][]string{{"CURRENT", "CONTEXT", "ADDRESSES", "TOKEN", "CA"}, {"*", "lab", f.Addr, "-", "-"},
		{"-", "prod", "127.0.0.1:1,127.0.0.1:2", "set", "-"}}
	if diff := cmp.Diff(wantRows, rows); diff != "" {
		t.Errorf("contexts (-want +got):\n%s", diff)
	}
	if strings.Contains(list, "s3cret") {
		t.Errorf("list: got the token:\n%s", list)
	}

	// The first context is the current one.
	if got := run(app.ExitOK, "", nil, "machine", "list", "-o", "name").Out.String(); !strings.Contains(got, "m-123") {
		t.Errorf("machines of the current context: got %q", got)
	}
	if got := f.Meta.Get("authorization"); len(got) != 0 {
		t.Errorf("got authorization %q, want none, because lab has no token", got)
	}
	run(app.ExitOK, "", nil, "context", "use", "prod")
	run(app.ExitUnavailable, "", nil, "machine", "list", "--timeout", "2s")
	run(app.ExitOK, "", nil, "--context", "lab", "machine", "list")
	run(app.ExitOK, "", map[string]string{"HOLDFAST_CONTEXT": "lab"}, "machine", "list")

	// An explicit address must not get the current context's token.
	run(app.ExitOK, "", map[string]string{"HOLDFAST_ADDR": f.Addr}, "machine", "list")
	if got := f.Meta.Get("authorization"); len(got) != 0 {
		t.Errorf("got authorization %q, want none, because the token is prod's", got)
	}
	run(app.ExitOK, "", nil, "--context", "prod", "--addr", f.Addr, "machine", "list")
	if got := f.Meta.Get("authorization"); len(got) != 1 || got[0] != "Bearer s3cret" {
		t.Errorf("got authorization %q, want prod's, which was named", got)
	}
	run(app.ExitOK, "", map[string]string{"HOLDFAST_TOKEN": "other"}, "--addr", f.Addr, "machine", "list")
	if got := f.Meta.Get("authorization"); len(got) != 1 || got[0] != "Bearer other" {
		t.Errorf("got authorization %q, want that of the environment", got)
	}

	run(app.ExitNotFound, "", nil, "context", "use", "nowhere")
	run(app.ExitNotFound, "", nil, "--context", "nowhere", "machine", "list")
	run(app.ExitOK, "", nil, "context", "delete", "prod")
	if got := run(app.ExitOK, "", nil, "context", "list").Out.String(); strings.Contains(got, "prod") {
		t.Errorf("got context prod, want it removed:\n%s", got)
	}
}

// TestContextSetRefuses checks that a context which could never be used is not stored.
func TestContextSetRefuses(t *testing.T) {
	home := t.TempDir()
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"", "--addr", "x:1"}, `context "": want a name of 1 to 64`},
		{[]string{"a b", "--addr", "x:1"}, `context "a b": want a name`},
		{[]string{"c", "--addr", "x:99999"}, `--addr: address "x:99999" has the port "99999", not 1 to 65535`},
		{[]string{"c", "--addr", "a:1,http://x:1"}, `address "http://x:1" is a URL: leave out "http://"`},
		{[]string{"c", "--addr", "10.0.0.300"}, "four numbers"},
		{[]string{"c", "--addr", ","}, `"," has no address beside a comma`},
		{[]string{"c", "--addr", ""}, `--addr: "": is empty`},
		{[]string{"c"}, "--addr is missing"},
	} {
		c := clitest.Command{Env: map[string]string{"HOME": home}}
		c.WantCode(t, c.Run(t, nil, append([]string{"context", "set"}, tt.args...)...), app.ExitUsage)
		clitest.WantIn(t, strings.Join(tt.args, " "), c.Err.String(), tt.want)
	}
	if _, err := os.Stat(filepath.Join(home, ".config", "holdfast", "config.yaml")); err == nil {
		t.Error("a refused context has been stored")
	}
}

// TestContextSetShowsTheContext checks that the answer names the addresses with their ports, and
// the files that are missing.
func TestContextSetShowsTheContext(t *testing.T) {
	home := t.TempDir()
	c := clitest.Command{Env: map[string]string{"HOME": home}}
	c.WantCode(t, c.Run(t, nil, "context", "set", "lab", "--addr", "peer-1, 10.0.0.2:7500", "--ca", "none/ca.pem"),
		app.ExitOK)
	clitest.WantIn(t, "stderr", c.Err.String(), "context lab: peer-1:7400,10.0.0.2:7500\n",
		"context lab cannot be used yet: ",
		"none/ca.pem")
	f, err := profile.Load(filepath.Join(home, ".config", "holdfast", "config.yaml"))
	if err != nil || !filepath.IsAbs(f.Contexts["lab"].CA) {
		t.Errorf("got CA %q (%v), want an absolute path", f.Contexts["lab"].CA, err)
	}
}

func TestReadableConfigFileIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte("contexts: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	c := clitest.Command{Env: map[string]string{"HOLDFAST_CONFIG": path}}
	c.WantCode(t, c.Run(t, nil, "machine", "list"), app.ExitError)
	want := "error: read config file " + path +
		": others can read it (mode 0640) and it may hold a token: run: chmod 600 " + path + "\n"
	if c.Err.String() != want {
		t.Errorf("got stderr %q, want %q", c.Err.String(), want)
	}
}

func TestTLSFilesAreChecked(t *testing.T) {
	junk := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(junk, []byte("junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--ca", junk}, "no PEM certificate found"},
		{[]string{"--ca", "/does/not/exist"}, "/does/not/exist"},
		{[]string{"--cert", junk, "--key", junk}, "read client certificate"},
		{[]string{"--addr", "10.0.0.1:7400", "--token", "s3cret"}, "refusing to send the token without TLS"},
	} {
		var c clitest.Command
		c.WantCode(t, c.Run(t, nil, append(tt.args, "machine", "list")...), app.ExitUsage)
		clitest.WantIn(t, "stderr", c.Err.String(), tt.want)
		if strings.Contains(c.Err.String(), "s3cret") {
			t.Errorf("got the token in stderr: %s", c.Err.String())
		}
	}
}

func TestVersion(t *testing.T) {
	f := clitest.Start(t, clitest.Fixture())
	var c clitest.Command
	c.WantCode(t, c.Run(t, nil, "version"), app.ExitOK)
	clitest.WantIn(t, "out", c.Out.String(), "holdfast ", "go1.")
	c = clitest.Command{}
	c.WantCode(t, c.Run(t, f, "version", "--server"), app.ExitOK)
	clitest.WantIn(t, "out", c.Out.String(), "peer-1   v1.2.0", "peer-3   -         -       connection refused")
	c = clitest.Command{}
	c.WantCode(t, c.Run(t, f, "version", "--server", "-o", "json"), app.ExitOK)
	clitest.WantIn(t, "out", c.Out.String(), `"client": {`, `"peer": "peer-2"`)
}

func TestCompletion(t *testing.T) {
	f := clitest.Start(t, clitest.Fixture())
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"machine", "get", ""}, "m-123\nm-124\nm-125\n"},
		{[]string{"machine", "set-phase", "m-123", "in"}, "in-service\n"},
		{[]string{"plan", "get", ""}, "plan/reboot\n"},
		{[]string{"run", "logs", ""}, "run-789\nrun-788\n"},
		{[]string{"run", "start", "m-123", "--plan", ""}, "plan/reboot\n"},
		{[]string{"machine", "list", "-o", ""}, "table\nwide\njson\n"},
		{[]string{"machine", "list", "--sort-by", ""}, "machine_id\n"},
		{[]string{"run", "list", "--sort-by=-"}, "-created_at\n"},
		{[]string{"machine", "list", "--filter", ""}, "rack\n"},
		{[]string{"machine", "list", "--filter", "phase = "}, "phase = IN_SERVICE\n"},
		{[]string{"machine", "list", "--filter", "(rack = r7 "}, "(rack = r7 AND\n"},
		{[]string{"machine", "list", "--filter", "phase = READY AND po"}, "phase = READY AND pool\n"},
	} {
		var c clitest.Command
		c.WantCode(t, c.Run(t, f, append([]string{"__complete"}, tt.args...)...), app.ExitOK)
		clitest.WantIn(t, strings.Join(tt.args, " "), c.Out.String(), tt.want)
	}
	var c clitest.Command
	c.WantCode(t, c.Run(t, nil, "completion", "bash"), app.ExitOK)
	clitest.WantIn(t, "script", c.Out.String(), "holdfast")
}
