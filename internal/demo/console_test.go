package demo

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestGlyphsFor(t *testing.T) {
	tests := []struct {
		env  map[string]string
		want string
	}{
		{nil, "★"},
		{map[string]string{"LANG": "en_US.UTF-8"}, "★"},
		{map[string]string{"LANG": "C"}, "*"},
		{map[string]string{"LANG": "en_US.UTF-8", "LC_ALL": "POSIX"}, "*"},
		{map[string]string{"LANG": "C", "LC_CTYPE": "C.utf8"}, "★"},
		{map[string]string{"LANG": "C.UTF-8", "TERM": "linux"}, "*"},
	}
	for _, tt := range tests {
		if got := glyphsFor(func(k string) string { return tt.env[k] }).leader; got != tt.want {
			t.Errorf("%v: got %q, want %q", tt.env, got, tt.want)
		}
	}
}

func TestConsoleWithoutTerminal(t *testing.T) {
	var out, err strings.Builder
	env := func(string) string { return "" }
	c := newConsole(&out, &err, true, env)
	if _, ok := c.display().(*ticker); !ok || c.colour {
		t.Errorf("display for a pipe: got %T, colors %v", c.display(), c.colour)
	}
	c.println("progress")
	if out.String() != "" || err.String() != "progress\n" {
		t.Errorf("with --json: got progress on stdout: %q, %q", out.String(), err.String())
	}
	c = newConsole(&out, &err, false, env)
	c.println("progress")
	if out.String() != "progress\n" {
		t.Errorf("got no progress on stdout: %q", out.String())
	}
}

func TestCommandRefuses(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"--machines 0", "set --machines to a number from 1 to 5000, not 0"},
		{"--machines 5001", "set --machines to a number from 1 to 5000, not 5001"},
		{"more", `unknown command "more" for "demo"`},
	} {
		cmd := Command()
		cmd.SetArgs(strings.Fields(tt.args))
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		err := cmd.ExecuteContext(t.Context())
		if err == nil {
			t.Errorf("%s: got no error", tt.args)
			continue
		}
		if diff := cmp.Diff(tt.want, err.Error()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.args, diff)
		}
	}
}
