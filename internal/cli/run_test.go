package cli_test

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/testing/protocmp"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/clitest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// transition returns an event of the first run.
func transition(cursor uint64, run *holdfastv1.Run, message string) *holdfastv1.RunEvent {
	return &holdfastv1.RunEvent{Ts: clitest.Ago(0), Cursor: cursor, Index: run.GetRevision(), Snapshot: run,
		Message: message}
}

func TestRunStart(t *testing.T) {
	f := clitest.Start(t, clitest.Fixture())
	var c clitest.Command
	c.WantCode(t, c.Run(t, f, "run", "start", "m-123", "--type", "repave", "--plan", "p", "--param",
		"image=ubuntu=24.04", "--param", "cluster_ref=c", "--yes", "-o", "name"), app.ExitOK)
	if got, want := c.Out.String(), "run-789\n"; got != want {
		t.Errorf("got output %q, want %q", got, want)
	}
	m := regexp.MustCompile(`^request-id: ([0-9a-f-]{36})\n$`).FindStringSubmatch(c.Err.String())
	if m == nil {
		t.Fatalf("got stderr %q, want the new request id", c.Err.String())
	}
	want := &holdfastv1.StartRunRequest{RequestId: m[1], MachineId: "m-123", Type: "REPAVE", PlanId: "p",
		Params: map[string]string{"image": "ubuntu=24.04", "cluster_ref": "c"}}
	if diff := cmp.Diff(want, clitest.Asked[*holdfastv1.StartRunRequest](f)[0], protocmp.Transform()); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}

	c = clitest.Command{}
	c.WantCode(t, c.Run(t, f, "run", "start", "m-123", "--type", "REBOOT", "--request-id", "ticket-4711"), app.ExitOK)
	if c.Err.String() != "" || clitest.Asked[*holdfastv1.StartRunRequest](f)[1].GetRequestId() != "ticket-4711" {
		t.Errorf("got stderr %q, want none for a given id", c.Err.String())
	}
}

func TestWaiting(t *testing.T) {
	running := clitest.FixtureRuns()[0]
	canceled := clitest.FailedRun()
	canceled.Phase, canceled.Error = holdfastv1.Run_CANCELED, &holdfastv1.RunError{Reason: "Canceled",
		Message: "wrong rack"}
	start := []string{"run", "start", "m-123", "--type", "REPAVE", "--request-id", "r", "--yes"}
	for _, tt := range []struct {
		name   string
		args   []string
		end    *holdfastv1.Run // nil: never
		want   int
		out    string
		stderr []string
	}{
		{"start, succeeded", append(start, "--wait"), clitest.Succeeded(), app.ExitOK, "SUCCEEDED",
			[]string{"run: run-789"}},
		{"start, failed", append(start, "--wait=10m"), clitest.FailedRun(), app.ExitRunFailed, "FAILED",
			[]string{
				"error: run run-789: FAILED at step repave-os (attempt 2): the disk is gone: see: holdfast run logs run-789"}},
		{"start, timeout of --wait", append(start, "--wait=50ms"), nil, app.ExitTimeout, "",
			[]string{"it is still RUNNING after 50ms: it goes on: see: holdfast run watch run-789"}},
		{"wait, succeeded", []string{"run", "wait", "run-789"}, clitest.Succeeded(), app.ExitOK, "SUCCEEDED", nil},
		{"wait, failed", []string{"run", "wait", "run-789", "-o", "name"}, clitest.FailedRun(), app.ExitRunFailed,
			"run-789\n",
			nil},
		{"wait, canceled", []string{"run", "wait", "run-789"}, canceled, app.ExitRunFailed, "CANCELED",
			[]string{"wrong rack"}},
		{"wait, timeout", []string{"run", "wait", "run-789", "--timeout", "2s"}, nil, app.ExitTimeout, "",
			[]string{"after 2s"}},
		{"wait, no such run", []string{"run", "wait", "run-0"}, nil, app.ExitNotFound, "",
			[]string{`run "run-0" not found`}},
		{"watch, succeeded", []string{"run", "watch", "run-789"}, clitest.Succeeded(), app.ExitOK, "SUCCEEDED 3/3", nil},
		{"watch, failed", []string{"run", "watch", "run-789"}, clitest.FailedRun(), app.ExitRunFailed,
			"FAILED 1/3 repave-os FAILED attempt 2/2: it is over", nil},
		{"watch, timeout", []string{"run", "watch", "run-789", "--timeout", "2s"}, nil, app.ExitTimeout, "RUNNING", nil},
		{"get -w, failed", []string{"run", "get", "run-789", "-w"}, clitest.FailedRun(), app.ExitRunFailed, "FAILED", nil},
		{"start, timeout of the command", append(start, "--wait", "--timeout", "1s"), nil, app.ExitTimeout, "",
			[]string{"it is still RUNNING after 1s"}},
		{"start, longer --wait", append(start, "--wait=2s", "--timeout", "1s"), nil, app.ExitTimeout, "",
			[]string{"it is still RUNNING after 2s"}},
		{"action, timeout of the command", []string{"machine", "power", "on", "m-123", "--timeout", "1s"}, nil,
			app.ExitTimeout,
			"", []string{"it is still RUNNING after 1s"}},
		{"cancel, timeout of the command", []string{"run", "cancel", "run-789", "--yes", "--wait", "--timeout", "1s"}, nil,
			app.ExitTimeout, "", []string{"it is still RUNNING after 1s"}},
		{"cancel, canceled", []string{"run", "cancel", "run-789", "--yes", "--wait", "--reason", "wrong rack"}, canceled,
			app.ExitOK, "CANCELED", nil},
		{"cancel, too late", []string{"run", "cancel", "run-789", "--yes", "--wait"}, clitest.Succeeded(),
			app.ExitRunFailed,
			"SUCCEEDED",
			[]string{"it ended before it could be canceled"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := clitest.Fixture()
			f.Open = true
			f.Events = []*holdfastv1.RunEvent{transition(1, running, "")}
			if tt.end != nil {
				f.Events = append(f.Events, transition(2, tt.end, "it is over"))
			}
			clitest.Start(t, f)
			ctx, cancel := context.WithCancel(t.Context())
			defer time.AfterFunc(20*time.Second, cancel).Stop() // of a command that waits forever
			c := clitest.Command{Ctx: ctx}
			c.WantCode(t, c.Run(t, f, tt.args...), tt.want)
			clitest.WantIn(t, "out", c.Out.String(), tt.out)
			clitest.WantIn(t, "stderr", c.Err.String(), tt.stderr...)
		})
	}
}

func TestWatchLines(t *testing.T) {
	events := []*holdfastv1.RunEvent{transition(1, clitest.FixtureRuns()[0], ""),
		transition(2, clitest.Succeeded(), "run succeeded")}
	watch := func(format string) string {
		f := clitest.Start(t, &clitest.Cluster{Runs: clitest.FixtureRuns(), Events: events, Open: true})
		var c clitest.Command
		c.WantCode(t, c.Run(t, f, "run", "watch", "run-789", "-o", format), app.ExitOK)
		return c.Out.String()
	}
	clitest.Golden(t, "run_watch.golden", watch("table"))
	if got, want := watch("name"), "run-789\nrun-789\n"; got != want {
		t.Errorf("got names %q, want %q", got, want)
	}
	for _, tt := range []struct{ format, separator string }{{"json", "\n"}, {"yaml", "---\n"}} {
		var got []*holdfastv1.RunEvent
		for doc := range strings.SplitSeq(watch(tt.format), tt.separator) {
			if strings.TrimSpace(doc) == "" {
				continue
			}
			raw, err := yaml.YAMLToJSON([]byte(doc))
			if err != nil {
				t.Fatal(err)
			}
			e := &holdfastv1.RunEvent{}
			if err := protojson.Unmarshal(raw, e); err != nil {
				t.Fatal(err)
			}
			got = append(got, e)
		}
		if diff := cmp.Diff(events, got, protocmp.Transform()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.format, diff)
		}
	}
}

func TestFollowEndsWithCtrlC(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		want int
		out  string
		err  string
	}{
		{"all runs", []string{"run", "watch"}, app.ExitOK, "run-789", ""},
		{"list -w", []string{"run", "list", "-w", "--filter", "machine_id = m-123"}, app.ExitOK, "run-789", ""},
		{"logs -f", []string{"run", "logs", "-f", "run-789"}, app.ExitOK, "boot id changed\n", ""},
		{"one run", []string{"run", "watch", "run-789"}, app.ExitError, "run-789",
			"interrupted while it is RUNNING: it goes on"},
		{"a start that waits", []string{"run", "start", "m-123", "--type", "REBOOT", "--wait"}, app.ExitError, "",
			"interrupted while it is RUNNING: it goes on"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := clitest.Fixture()
			f.Open = true
			f.Events = []*holdfastv1.RunEvent{transition(1, clitest.FixtureRuns()[0], "")}
			clitest.Start(t, f)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			c := clitest.Command{Ctx: ctx}
			done := make(chan int)
			go func() { done <- c.Run(t, f, tt.args...) }()
			<-f.Watching
			clitest.Eventually(t, "the output", func() bool { return strings.Contains(c.Out.String(), tt.out) })
			cancel()
			c.WantCode(t, <-done, tt.want)
			if tt.err == "" && strings.Contains(c.Err.String(), "error") {
				t.Errorf("got stderr %q, want no error", c.Err.String())
			}
			clitest.WantIn(t, "stderr", c.Err.String(), tt.err)
		})
	}
}

func TestWatchPassesFilterAndCursor(t *testing.T) {
	f := clitest.Fixture()
	f.Open = true
	clitest.Start(t, f)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := clitest.Command{Ctx: ctx}
	done := make(chan int)
	go func() { done <- c.Run(t, f, "run", "watch", "--filter", "phase = RUNNING", "--cursor", "41") }()
	<-f.Watching
	cancel()
	c.WantCode(t, <-done, app.ExitOK)
	want := &holdfastv1.WatchRunsRequest{Filter: "phase = RUNNING", Bookmarks: true, Cursor: 41}
	if diff := cmp.Diff(want, clitest.Asked[*holdfastv1.WatchRunsRequest](f)[0], protocmp.Transform()); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
}

func TestLiveBlock(t *testing.T) {
	f := clitest.Fixture()
	f.Open = true
	f.Events = []*holdfastv1.RunEvent{transition(1, clitest.FixtureRuns()[0], ""), transition(2, clitest.Succeeded(), "")}
	clitest.Start(t, f)
	c := clitest.Command{Terminal: true, Env: map[string]string{"NO_COLOR": "1"}}
	c.WantCode(t, c.Run(t, f, "run", "watch", "run-789"), app.ExitOK)
	got := c.Out.String()
	if at := strings.LastIndex(got, "\x1b[J"); at >= 0 {
		got = got[at+len("\x1b[J"):] // the rest after the last redraw
	}
	clitest.Golden(t, "live_run.golden", got)

	// With --wait, the block is written to standard error, and standard output has only data.
	c = clitest.Command{Terminal: true, Env: map[string]string{"NO_COLOR": "1"}}
	g := clitest.Start(t, &clitest.Cluster{Runs: f.Runs, Events: f.Events, Open: true})
	c.WantCode(t, c.Run(t, g, "run", "start", "m-123", "--type", "REPAVE", "--yes", "--wait", "-o", "name"), app.ExitOK)
	if c.Out.String() != "run-789\n" {
		t.Errorf("got output %q, want only the run's name", c.Out.String())
	}
	clitest.WantIn(t, "stderr", c.Err.String(), "✓ repave-os")
}

func TestLogs(t *testing.T) {
	f := clitest.Start(t, clitest.Fixture())
	var c clitest.Command
	c.WantCode(t, c.Run(t, f, "run", "logs", "run-789", "--offset", "10"), app.ExitOK)
	want := &holdfastv1.StreamRunLogsRequest{RunId: "run-789", Offset: 10, NoFollow: true}
	if diff := cmp.Diff(want, clitest.Asked[*holdfastv1.StreamRunLogsRequest](f)[0], protocmp.Transform()); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
	c = clitest.Command{}
	c.WantCode(t, c.Run(t, f, "run", "logs", "-f", "run-789"), app.ExitOK)
	if got := clitest.Asked[*holdfastv1.StreamRunLogsRequest](f)[1]; got.GetNoFollow() || c.Out.String() != f.Log {
		t.Errorf("got request %v, output %q, want follow", got, c.Out.String())
	}
}
