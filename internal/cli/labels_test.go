package cli

import (
	"context"
	"strings"
	"testing"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func TestLabelSelectors(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"machine list -l env=prod", `labels."env" = "prod"`},
		{"machine list -l env=prod,!canary --filter pool=gpu", `(pool=gpu) AND labels."env" = "prod" AND NOT labels."canary":*`},
		{"machine watch --labels env --timeout 3s", `labels."env":*`},
		{"machine issues -l env", `(labels."env":*) AND ` + troubled},
		{"node list -l env", `labels."env":*`},
		{"run start -l env=prod --type REBOOT --dry-run", `labels."env" = "prod"`},
	} {
		t.Run(tt.args, func(t *testing.T) {
			f := startCluster(t, fixture())
			var c command
			c.run(t, f, strings.Fields(tt.args)...)
			if got := asked[*holdfastv1.ListMachinesRequest](f); len(got) == 0 || got[0].GetFilter() != tt.want {
				t.Errorf("got requests %v, want filter %s; stderr:\n%s", got, tt.want, c.err.String())
			}
		})
	}
	var c command
	c.wantCode(t, c.run(t, nil, "machine", "list", "-l", "a b"), app.ExitUsage)
	wantIn(t, "stderr", c.err.String(), `--labels: parse selector "a b": "a b" is none of key=value`)
}

func TestLabelColumns(t *testing.T) {
	f := fixture()
	f.machines[0].Labels = map[string]string{"env": "prod"}
	startCluster(t, f)
	for _, format := range []string{"table", "wide"} {
		var c command
		c.wantCode(t, c.run(t, f, "machine", "list", "-L", "env,row", "-o", format), app.ExitOK)
		lines := strings.Split(c.out.String(), "\n")
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
	f := fixture()
	f.events = []*holdfastv1.RunEvent{inWave(1, "m-1", holdfastv1.Run_RUNNING), inWave(2, "m-2", holdfastv1.Run_RUNNING),
		inWave(3, "m-1", holdfastv1.Run_SUCCEEDED)}
	f.open = true
	startCluster(t, f)
	for _, tt := range []struct{ args, want string }{
		{"run list -w --limit 1 -o name", "run-m-1\nrun-m-1\n"},
		{"machine list -w --limit 2 -o name", "m-123\nm-124\n"},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		c := command{ctx: ctx}
		done := make(chan int)
		go func() { done <- c.run(t, f, strings.Fields(tt.args)...) }()
		eventually(t, "the last line", func() bool { return len(c.out.String()) >= len(tt.want) })
		cancel()
		<-done
		if got := c.out.String(); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.args, got, tt.want)
		}
	}
}
