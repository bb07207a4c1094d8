package sshexec

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/holdfast-metal/holdfast/providers"
)

// shells returns the shells of this machine: dash, bash, busybox.
func shells(t testing.TB) [][]string {
	t.Helper()
	var all [][]string
	for _, s := range [][]string{{"sh"}, {"dash"}, {"bash", "--posix"}, {"busybox", "sh"}} {
		if _, err := exec.LookPath(s[0]); err == nil {
			all = append(all, s)
		}
	}
	if len(all) == 0 {
		t.Skip("NOT TESTED: no shell found")
	}
	return all
}

// args runs a script and returns the arguments of the program at its end.
func args(t interface{ Fatalf(string, ...any) }, shell []string, script string) []string {
	var stderr bytes.Buffer
	cmd := exec.Command(shell[0], append(shell[1:], "-c", script)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"}
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v: %s in %q", shell, err, stderr.String(), script)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
}

func FuzzQuote(f *testing.F) {
	for _, s := range []string{"", "a", "a b", "'", "''", `\`, `\'`, "$HOME", "`id`", "\n", "-n", "é", "\x81\x88\xff",
		"!", "*", "~", "a\r\n\tb", "$(exit 1)", "%s%d"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if strings.ContainsRune(s, 0) {
			return
		}
		for _, shell := range shells(t) {
			if got := args(t, shell, `printf '%s\0' `+quote(s)+" end"); len(got) != 2 || got[0] != s {
				t.Errorf("%v: got %q, want %q", shell, got, s)
			}
		}
	})
}

// TestJobsReachTheirProgram checks that the program gets its path, arguments and environment byte
// by byte.
func TestJobsReachTheirProgram(t *testing.T) {
	dir := t.TempDir()
	text := rapid.StringMatching(`[^\x00]{0,40}`)
	raw := rapid.Map(rapid.SliceOfN(rapid.ByteRange(1, 255), 0, 40), func(b []byte) string { return string(b) })
	word := rapid.OneOf(text, raw,
		rapid.SampledFrom([]string{"", "-e", "--", "=", "a=b", "'", "$(id)", "\n", "\\\n", "*"}))
	names := rapid.SampledFrom([]string{"program", "pro gram", "a=b", "it's", "$HOME", "ü", "x\ny", "\\", "*"})
	all := shells(t)
	rapid.Check(t, func(t *rapid.T) {
		path := filepath.Join(dir, names.Draw(t, "name"))
		if err := os.WriteFile(path, []byte("#!/bin/sh\nprintf '%s\\0' \"$A\" \"$@\"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		c := providers.Command{Path: path, Args: rapid.SliceOfN(word, 0, 5).Draw(t, "args"),
			Env: map[string]string{"A": word.Draw(t, "A")}}
		j, err := newJob(c)
		if err != nil {
			t.Fatalf("%v", err)
		}
		want := append([]string{c.Env["A"]}, c.Args...)
		got := args(t, rapid.SampledFrom(all).Draw(t, "shell"), j.text)
		if strings.Join(got, "\x00") != strings.Join(want, "\x00") || len(got) != len(want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// TestLinesAreOneLine checks that each line for the agent is one line.
func TestLinesAreOneLine(t *testing.T) {
	if got, want := line("hf_x", "a'b", 7, ""), "hf_x 'a'\\''b' '7' ''\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	rapid.Check(t, func(t *rapid.T) {
		if s := rapid.String().Draw(t, "token"); tokenOK.MatchString(s) && strings.Count(line("hf_x", s), "\n") != 1 {
			t.Errorf("token %q: got more than one line", s)
		}
		if s := rapid.String().Draw(t, "user"); userOK.MatchString(s) &&
			strings.ContainsAny(s, "\n '\"$-") != strings.Contains(s, "-") {
			t.Errorf("user %q: got no error", s)
		}
	})
}
