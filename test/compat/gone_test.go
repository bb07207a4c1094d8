package compat

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/test/program"
)

// has are lines of each kind that every build has. Without one of them a kind is not read right.
func has() baseline {
	return baseline{
		"flags": {"holdfast", "holdfast --addr", "holdfast machine list", "holdfast machine list --limit",
			"holdfast machine list -o", "holdfast server --data-dir", "holdfast-agent", "holdfast-agent --log-level",
			"holdfast-agent run", "holdfast-agent run --server"},
		"environment": {"HOLDFAST_ADDR", "HOLDFAST_TOKEN", "HOLDFAST_DATA_DIR"},
		"config":      {"data_dir", "providers", "providers.cloudbmc.ca_file", "providers.datacenter.ssh.jump[].endpoint"},
		"exits":       {"0 ok", "3 not found", "7 no leader, or no peer answers"},
		"metrics":     {"holdfast_build_info label version"},
		"alerts":      {"HoldfastClockWrong"},
		"permissions": {"holdfast.v1.RunService/StartRun: operator"},
	}
}

// collect returns everything stable of this build, with the metrics that are seen until enough.
func collect(t *testing.T, enough func(seen []string) bool) baseline {
	t.Helper()
	holdfast := program.Holdfast(t)
	b := ofPrograms(t, holdfast)
	maps.Copy(b, ofFiles(t))
	b["metrics"] = metrics(t, holdfast, enough)
	for kind, lines := range has() {
		for _, line := range lines {
			if !slices.Contains(b[kind], line) {
				t.Errorf("%s: got no line %q among %d", kind, line, len(b[kind]))
			}
		}
	}
	return b
}

// TestNothingIsGone compares this build with all releases.
func TestNothingIsGone(t *testing.T) {
	releases, err := readReleases("testdata")
	if err != nil {
		t.Fatal(err)
	}
	removed, err := parseRemovals(readFile(t, "testdata/allowed.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range unrecorded(readFile(t, "../../CHANGELOG.md"), releases) {
		t.Errorf("CHANGELOG.md has %s, which is not recorded: run make compat-record VERSION=%s at its tag", v, v)
	}
	wanted := slices.Clone(has()["metrics"])
	for _, b := range releases {
		for _, line := range b["metrics"] {
			if !slices.ContainsFunc(removed, func(r removal) bool { return r.kind == "metrics" && r.line == line }) {
				wanted = append(wanted, line)
			}
		}
	}
	now := collect(t, func(seen []string) bool {
		return !slices.ContainsFunc(wanted, func(line string) bool { return !slices.Contains(seen, line) })
	})
	for _, f := range compare(releases, now, removed) {
		t.Error(f)
	}
	if len(releases) == 0 && !t.Failed() {
		t.Skip("NOT TESTED: no release is recorded yet: make compat-record VERSION=0.1.0 does it")
	}
}

// TestRecord writes the baseline of a release (make compat-record VERSION=…).
func TestRecord(t *testing.T) {
	v := os.Getenv("COMPAT_VERSION")
	if v == "" {
		t.Skip("writes what a release has: run make compat-record VERSION=0.1.0")
	}
	if !version.MatchString(v) {
		t.Fatalf("COMPAT_VERSION is %q: want a version such as 0.1.0", v)
	}
	end := time.Now().Add(30 * time.Second) // metrics that come later are not promised
	b := collect(t, func([]string) bool { return time.Now().After(end) })
	if t.Failed() {
		return
	}
	if err := writeRelease(filepath.Join("testdata", v), b); err != nil {
		t.Fatal(err)
	}
}

func TestOfPages(t *testing.T) {
	const page = `.TH HOLDFAST\-RUN\-START 1 "" Holdfast "Holdfast manual"
.SH NAME
holdfast\-run\-start \- Start a run
.SH SYNOPSIS
\fBholdfast run start MACHINE [flags]\fP
.SH DESCRIPTION
It reads \-\-not\-a\-flag and HOLDFAST_ADDR.
.SH OPTIONS
.TP
\fB\-o, \-\-output\fP \fIformat\fP
output format
.TP
\fB\-\-dry\-run\fP
only check
.SH GLOBAL OPTIONS
.TP
\fB\-\-addr\fP \fIstring\fP
addresses
`
	commands, variables := ofPages([]string{page})
	if diff := cmp.Diff([]string{"holdfast run start", "holdfast run start --output", "holdfast run start -o",
		"holdfast run start --dry-run"}, commands); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"HOLDFAST_ADDR"}, variables); diff != "" {
		t.Errorf("variables (-want +got):\n%s", diff)
	}
}

func TestOfHelp(t *testing.T) {
	const help = `Keep this machine registered.

Usage:
  holdfast-agent [command]

Available Commands:
  completion  Generate the autocompletion script
  pool        Register the GPUs
  run         Register the machine

Flags:
  -h, --help               help for holdfast-agent
      --log-level string   debug, info

Global Flags:
      --other   of the parent
`
	verbs, lines := ofHelp("a", help)
	if diff := cmp.Diff([]string{"pool", "run"}, verbs); diff != "" {
		t.Errorf("verbs (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a --help", "a -h", "a --log-level"}, lines); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

func TestKeys(t *testing.T) {
	got := keys("", map[string]any{"providers": map[string]any{"any-site": map[string]any{"kind": "ssh",
		"jump": []any{map[string]any{"endpoint": "a"}}}}, "roles": map[string]any{"any-role": "viewer"}})
	slices.Sort(got)
	want := []string{"providers", "providers.ssh", "providers.ssh.jump", "providers.ssh.jump[].endpoint",
		"providers.ssh.kind", "roles", "roles.*"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSeries(t *testing.T) {
	got := series(t, "# TYPE holdfast_a counter\nholdfast_a{x=\"1\"} 1\n# TYPE go_b gauge\ngo_b 1\n")
	if diff := cmp.Diff([]string{"holdfast_a counter", "holdfast_a label x"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
