package integrations

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/internal/cli"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
)

// wrongFiles are the files that the commands of testdata/wrong*.txt read.
var wrongFiles = map[string]string{
	"typo.yaml":      "machine_id: m-3\nspec: {pol: gpu}\n",
	"indent.yaml":    "machine_id: m-3\n spec: {pool: gpu}\n",
	"outdent.yaml":   "machine_id: m-3\nspec:\n    pool: gpu\n  rack: r7\n",
	"tab.yaml":       "machine_id: m-3\nspec:\n\tpool: gpu\n",
	"colon.yaml":     "machine_id: m-3\nspec:\n  pool gpu\n  rack: r7\n",
	"empty.yaml":     "",
	"noid.yaml":      "spec: {pool: gpu}\n",
	"kube.yaml":      "apiVersion: v1\nkind: Machine\nmetadata: {name: m-3}\n",
	"two.yaml":       "plan_id: two\nsteps: [{name: a, reboot: {}, ssh: {script: \"true\"}}]\n",
	"none.yaml":      "plan_id: none\nsteps: []\n",
	"slow.yaml":      "plan_id: slow\nsteps: [{name: a, ssh: {script: \"sleep 100\"}}]\n",
	"peer-key.yaml":  "node_id: n1\nbotstrap_expect: 3\n",
	"peer-type.yaml": "node_id: n1\nbootstrap_expect: three\n",
	"contexts.yaml":  "current: prod\ncontexts: {}\n",
	"provider.yaml":  "providers: {dc-1: {kind: redfish}}\n",
}

// word is a word of a command line, bare or in single quotes.
var word = regexp.MustCompile(`'[^']*'|\S+`)

// TestWrongInputs types wrong inputs against a peer, and compares exit codes and messages with
// testdata/wrong.txt.
func TestWrongInputs(t *testing.T) {
	l := newLab(t)
	l.serve()
	s := newScript(l, "wrong.txt")
	s.right("pool create gpu",
		"machine register --id m-1 --pool gpu --mac aa:bb:cc:dd:ee:01 --bmc 10.9.0.1",
		"machine register --id m-2",
		"operator snapshot save saved.snap",
		"plan apply -f slow.yaml",
		"run start m-2 --plan slow --request-id req-1")
	s.check()
}

// script is a file of command lines "$ …" with their messages and exit codes. Lines that begin
// with # are comments. UPDATE_GOLDEN=1 writes the results.
type script struct {
	*lab
	file   string
	env    map[string]string
	values map[string]string // of $NAME in a command line
	show   *strings.Replacer // from generated values to names
}

// newScript writes the files into the lab's directory.
func newScript(l *lab, name string) *script {
	l.Helper()
	file, err := filepath.Abs(filepath.Join("testdata", name))
	if err != nil {
		l.Fatal(err)
	}
	l.Chdir(l.dir)
	for name, text := range wrongFiles {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			l.Fatal(err)
		}
	}
	if err := os.Mkdir("empty", 0o700); err != nil {
		l.Fatal(err)
	}
	return &script{lab: l, file: file, env: map[string]string{"HOLDFAST_ADDR": l.grpc, "HOME": l.dir},
		values: map[string]string{"GRPC": l.grpc, "HTTP": l.http},
		show:   strings.NewReplacer(l.grpc, "$GRPC", l.http, "$HTTP", l.dir, "$DIR")}
}

// right runs command lines that must succeed.
func (s *script) right(lines ...string) {
	s.Helper()
	for _, line := range lines {
		if out, code := s.run(line); code != 0 {
			s.Fatalf("%s: got exit code %d\n%s", line, code, out)
		}
	}
}

// check runs the command lines of the file, which must fail.
func (s *script) check() {
	s.Helper()
	want, err := os.ReadFile(s.file)
	if err != nil {
		s.Fatal(err)
	}
	var got strings.Builder
	for line := range strings.Lines(string(want)) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "#") {
			got.WriteString(line + "\n")
			continue
		}
		line, ok := strings.CutPrefix(line, "$ ")
		if !ok {
			continue
		}
		out, code := s.run(line)
		fmt.Fprintf(&got, "$ %s\n%sexit code %d\n", line, s.tidy(out), code)
		if code == 0 {
			s.Errorf("%s: got exit code 0", line)
		}
	}
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(s.file, []byte(got.String()), 0o644); err != nil {
			s.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		s.Errorf("%s (-want +got; UPDATE_GOLDEN=1 writes it):\n%s", filepath.Base(s.file), diff)
	}
}

// generated are texts that differ between two runs.
var generated = []struct {
	text *regexp.Regexp
	as   string
}{
	{regexp.MustCompile(`(?m)^request-id: .*\n`), ""},
	{regexp.MustCompile(`(?m)^(?:time=|note: no answer ).*\n`), ""},
	{regexp.MustCompile(`\brun-[0-9a-f]{8,}\b`), "run-ID"},
	{regexp.MustCompile(`in \d+ tries\b`), "in N tries"},
	{regexp.MustCompile(`\b(?:it is still (?:PENDING|RUNNING)|time is up)\b`), "it is still ACTIVE"},
	{regexp.MustCompile(`\(pid \d+\)`), "(pid N)"},
	{regexp.MustCompile(`lookup (\S+) on \S+: `), "lookup $1 on DNS: "},
	{regexp.MustCompile(`127\.0\.0\.1:\d{2,}`), "127.0.0.1:PORT"},
}

// tidy replaces texts that differ between two runs.
func (s *script) tidy(out string) string {
	out = s.show.Replace(out)
	for _, g := range generated {
		out = g.text.ReplaceAllString(out, g.as)
	}
	return out
}

// run runs a command line without a terminal, and returns its standard error. Servers and tools for
// keys are processes. Words HOLDFAST_…=VALUE before the command are its environment.
func (s *script) run(line string) (string, int) {
	s.Helper()
	args := word.FindAllString(os.Expand(line, func(name string) string { return s.values[name] }), -1)
	for i := range args {
		args[i] = strings.Trim(args[i], "'")
	}
	env := map[string]string{}
	maps.Copy(env, s.env)
	for len(args) > 0 && strings.HasPrefix(args[0], "HOLDFAST_") {
		name, value, _ := strings.Cut(args[0], "=")
		env[name], args = value, args[1:]
	}
	ctx, cancel := context.WithCancel(s.Context()) // a deadline would replace --timeout
	defer cancel()
	defer time.AfterFunc(30*time.Second, cancel).Stop()
	var out bytes.Buffer
	if args[0] == "server" || args[0] == "tls" || args[0] == "gossip" {
		return s.process(ctx, env, args)
	}
	code := cli.Main(ctx, app.Streams{In: strings.NewReader(""), Out: io.Discard, Err: &out, Now: time.Now,
		Getenv: func(key string) string { return env[key] },
		Size:   func(io.Writer) (int, int, bool) { return 0, 0, false }}, args)
	return out.String(), code
}

// process runs the binary.
func (s *script) process(ctx context.Context, env map[string]string, args []string) (string, int) {
	s.Helper()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, filepath.Join(s.dir, "bin", "holdfast"), args...)
	cmd.Dir, cmd.Stderr = s.dir, &out
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	exit := (*exec.ExitError)(nil)
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		s.Fatalf("%s: %v", strings.Join(args, " "), err)
	}
	return out.String(), cmd.ProcessState.ExitCode()
}
