package cli

import (
	"strings"
	"testing"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
)

func TestWaveUsage(t *testing.T) {
	for _, tt := range []struct {
		args string
		want string
	}{
		{"--type REBOOT", "MACHINE is missing"},
		{"m-1 --selector x --type REBOOT", "give either MACHINE or --selector"},
		{"m-1 --type REBOOT --max-parallel 2", "--max-parallel: only for a wave: pass --selector"},
		{"m-1 --type REBOOT --wave w", "--wave: only for a wave"},
		{"--selector x --type REBOOT --request-id r", "give --wave"},
		{"--selector x --type REBOOT --max-parallel 0", "--max-parallel: 0: give 1 or more"},
		{"--selector x --type REBOOT --max-failures -1", "--max-failures: -1: give 0 or more"},
		{"--selector x", "give --type"},
	} {
		var c command
		c.wantCode(t, c.run(t, nil, append([]string{"run", "start"}, strings.Fields(tt.args)...)...), app.ExitUsage)
		wantIn(t, "stderr", c.err.String(), tt.want)
	}
	f := startCluster(t, &fakeCluster{})
	var c command
	c.wantCode(t, c.run(t, f, "run", "start", "--selector", "phase = READY", "--type", "REBOOT"), app.ExitNotFound)
	wantIn(t, "stderr", c.err.String(), `no machine matches "phase = READY"`)
}
