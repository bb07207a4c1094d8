package cli_test

import (
	"strings"
	"testing"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/clitest"
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
		var c clitest.Command
		c.WantCode(t, c.Run(t, nil, append([]string{"run", "start"}, strings.Fields(tt.args)...)...), app.ExitUsage)
		clitest.WantIn(t, "stderr", c.Err.String(), tt.want)
	}
	f := clitest.Start(t, &clitest.Cluster{})
	var c clitest.Command
	c.WantCode(t, c.Run(t, f, "run", "start", "--selector", "phase = READY", "--type", "REBOOT"), app.ExitNotFound)
	clitest.WantIn(t, "stderr", c.Err.String(), `no machine matches "phase = READY"`)
}
