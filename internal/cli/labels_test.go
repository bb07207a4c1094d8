package cli_test

import (
	"context"
	"strings"
	"testing"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/clitest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func TestLabelSelectors(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"machine list -l env=prod", `labels."env" = "prod"`},
		{"machine list -l env=prod,!canary --filter pool=gpu", `(pool=gpu) AND labels."env" = "prod" AND NOT labels."canary":*`},
		{"machine watch --labels env --timeout 3s", `labels."env":*`},
		{"machine issues -l env", `(labels."env":*) AND needs_attention = true`},
		{"node list -l env", `labels."env":*`},
		{"run start -l env=prod --type REBOOT --dry-run", `labels."env" = "prod"`},
	} {
		t.Run(tt.args, func(t *testing.T) {
			f := clitest.Start(t, clitest.Fixture())
			var c clitest.Command
			c.Run(t, f, strings.Fields(tt.args)...)
			if got := clitest.Asked[*holdfastv1.ListMachinesRequest](f); len(got) == 0 || got[0].GetFilter() != tt.want {
				t.Errorf("got requests %v, want filter %s; stderr:\n%s", got, tt.want, c.Err.String())
			}
		})
	}
	var c clitest.Command
	c.WantCode(t, c.Run(t, nil, "machine", "list", "-l", "a b"), app.ExitUsage)
	clitest.WantIn(t, "stderr", c.Err.String(), `--labels: parse selector "a b": "a b" is none of key=value`)
}

func TestLabelColumns(t *testing.T) {
	f := clitest.Fixture()
	f.Machines[0].Labels = map[string]string{"env": "prod"}
	clitest.Start(t, f)
	for _, format := range []string{"table", "wide"} {
		var c clitest.Command
		c.WantCode(t, c.Run(t, f, "machine", "list", "-L", "env,row", "-o", format), app.ExitOK)
		lines := strings.Split(c.Out.String(), "\n")
		if got := strings.Fields(lines[0]); strings.Join(got[len(got)-2:], " ") != "ENV ROW" {
			t.Errorf("-o %s: got header %v, want ENV ROW at the end", format, got)
		}
		if got := strings.Fields(lines[1]); strings.Join(got[len(got)-2:], " ") != "prod -" {
			t.Errorf("-o %s: got row %v, want prod - at the end", format, got)
		}
	}
}

// TestWatchLimit checks that list -w follows no more resources than --limit.
func TestWatchLimit(t *testing.T) {
	f := clitest.Fixture()
	f.Events = []*holdfastv1.RunEvent{inWave(1, "m-1", holdfastv1.Run_RUNNING), inWave(2, "m-2", holdfastv1.Run_RUNNING),
		inWave(3, "m-1", holdfastv1.Run_SUCCEEDED)}
	f.Open = true
	clitest.Start(t, f)
	for _, tt := range []struct{ args, want string }{
		{"run list -w --limit 1 -o name", "run-m-1\nrun-m-1\n"},
		{"machine list -w --limit 2 -o name", "m-123\nm-124\n"},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		c := clitest.Command{Ctx: ctx}
		done := make(chan int)
		go func() { done <- c.Run(t, f, strings.Fields(tt.args)...) }()
		clitest.Eventually(t, "the last line", func() bool { return len(c.Out.String()) >= len(tt.want) })
		cancel()
		<-done
		if got := c.Out.String(); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.args, got, tt.want)
		}
	}
}
