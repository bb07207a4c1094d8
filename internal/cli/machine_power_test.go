package cli_test

import (
	"strings"
	"testing"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/clitest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// The power is read from the state: no run is started, and -o json is one object.
func TestPowerStatus(t *testing.T) {
	f := clitest.Start(t, clitest.Fixture())
	for _, tt := range []struct{ machine, want string }{
		{"m-123", "m-123: power on, observed 9s ago\n"},
		{"m-124", "m-124: powered off 41m ago by run-788 (REBOOT), observed 12s ago\n"},
		{"m-125", "m-125: this peer does not report the power: upgrade it\n"},
	} {
		var c clitest.Command
		c.WantCode(t, c.Run(t, f, "machine", "power", "status", tt.machine), app.ExitOK)
		if got := c.Out.String(); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.machine, got, tt.want)
		}
	}
	var c clitest.Command
	c.WantCode(t, c.Run(t, f, "machine", "power", "status", "m-124", "-o", "jsonpath=status.power"), app.ExitOK)
	if got := strings.TrimSpace(c.Out.String()); got != "OFF" {
		t.Errorf("jsonpath: got %q, want OFF", got)
	}
	if n := len(clitest.Asked[*holdfastv1.StartRunRequest](f)); n > 0 {
		t.Errorf("got %d runs, want none", n)
	}
}
