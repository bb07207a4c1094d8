package integrations

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/internal/cli"
)

// wrongFiles are the files that the commands of testdata/wrong.txt read.
var wrongFiles = map[string]string{
	"typo.yaml":   "machine_id: m-3\nspec: {pol: gpu}\n",
	"indent.yaml": "machine_id: m-3\n spec: {pool: gpu}\n",
	"empty.yaml":  "",
	"noid.yaml":   "spec: {pool: gpu}\n",
	"kube.yaml":   "apiVersion: v1\nkind: Machine\nmetadata: {name: m-3}\n",
	"two.yaml":    "plan_id: two\nsteps: [{name: a, reboot: {}, ssh: {script: \"true\"}}]\n",
	"none.yaml":   "plan_id: none\nsteps: []\n",
	"slow.yaml":   "plan_id: slow\nsteps: [{name: a, ssh: {script: \"sleep 100\"}}]\n",
}

// word is a word of a command line, bare or in single quotes.
var word = regexp.MustCompile(`'[^']*'|\S+`)

// generated matches what differs between two runs.
var generated = regexp.MustCompile(`(?m)^request-id: .*\n`)

// TestWrongInputs types wrong inputs against a peer, and compares exit codes and messages with
// testdata/wrong.txt, in which each command is a line "$ …". UPDATE_GOLDEN=1 writes the results.
func TestWrongInputs(t *testing.T) {
	l := newLab(t)
	l.serve()
	golden, err := filepath.Abs("testdata/wrong.txt")
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(l.dir)
	for name, text := range wrongFiles {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir("empty", 0o700); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"pool create gpu",
		"machine register --id m-1 --pool gpu --mac aa:bb:cc:dd:ee:01 --bmc 10.9.0.1",
		"machine register --id m-2"} {
		if out, code := wrongly(t, l, line); code != 0 {
			t.Fatalf("%s: got exit code %d\n%s", line, code, out)
		}
	}
	var got strings.Builder
	for line := range strings.Lines(string(want)) {
		if line, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "$ "); ok {
			out, code := wrongly(t, l, line)
			fmt.Fprintf(&got, "$ %s\n%sexit code %d\n", line, generated.ReplaceAllString(out, ""), code)
			if code == 0 {
				t.Errorf("%s: got exit code 0", line)
			}
		}
	}
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("testdata/wrong.txt (-want +got; UPDATE_GOLDEN=1 writes it):\n%s", diff)
	}
}

// wrongly runs a command line in this process, without a terminal, and returns its standard error.
func wrongly(t *testing.T, l *lab, line string) (string, int) {
	t.Helper()
	args := word.FindAllString(line, -1)
	for i := range args {
		args[i] = strings.Trim(args[i], "'")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var out bytes.Buffer
	env := map[string]string{"HOLDFAST_ADDR": l.grpc, "HOME": l.dir}
	code := cli.Main(ctx, cli.Streams{In: strings.NewReader(""), Out: io.Discard, Err: &out, Now: time.Now,
		Getenv: func(key string) string { return env[key] },
		Size:   func(io.Writer) (int, int, bool) { return 0, 0, false }}, args)
	return out.String(), code
}
