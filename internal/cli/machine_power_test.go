package cli

import (
	"strings"
	"testing"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// The power is read from the state: no run is started, and -o json is one object.
func TestPowerStatus(t *testing.T) {
	f := startCluster(t, fixture())
	for _, tt := range []struct{ machine, want string }{
		{"m-123", "m-123: power on, observed 9s ago\n"},
		{"m-124", "m-124: powered off 41m ago by run-788 (REBOOT), observed 12s ago\n"},
		{"m-125", "m-125: this peer does not report the power: upgrade it\n"},
	} {
		var c command
		c.wantCode(t, c.run(t, f, "machine", "power", "status", tt.machine), app.ExitOK)
		if got := c.out.String(); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.machine, got, tt.want)
		}
	}
	var c command
	c.wantCode(t, c.run(t, f, "machine", "power", "status", "m-124", "-o", "jsonpath=status.power"), app.ExitOK)
	if got := strings.TrimSpace(c.out.String()); got != "OFF" {
		t.Errorf("jsonpath: got %q, want OFF", got)
	}
	if n := len(asked[*holdfastv1.StartRunRequest](f)); n > 0 {
		t.Errorf("got %d runs, want none", n)
	}
}

func TestMovedSentence(t *testing.T) {
	const maintenance, ready, serving = holdfastv1.MachineStatus_MAINTENANCE, holdfastv1.MachineStatus_READY,
		holdfastv1.MachineStatus_IN_SERVICE
	m := func(
		phase holdfastv1.MachineStatus_Phase, state holdfastv1.EffectiveState_Value, run string,
	) *holdfastv1.Machine {
		return &holdfastv1.Machine{MachineId: "m-7", Status: &holdfastv1.MachineStatus{Phase: phase, EffectiveState: state,
			ActiveRunId: run}}
	}
	for _, tt := range []struct {
		after *holdfastv1.Machine
		want  string
	}{
		{m(ready, holdfastv1.EffectiveState_READY, ""), "m-7: phase MAINTENANCE -> READY"},
		{m(ready, holdfastv1.EffectiveState_IN_SERVICE, ""), "m-7: phase MAINTENANCE -> READY; shown as IN_SERVICE " +
			"because its node is still in cluster default"},
		{m(serving, holdfastv1.EffectiveState_READY, ""),
			"m-7: phase MAINTENANCE -> IN_SERVICE; shown as READY until its node is seen in a cluster"},
		{m(ready, holdfastv1.EffectiveState_PROVISIONING, "run-1"),
			"m-7: phase MAINTENANCE -> READY; shown as PROVISIONING because run-1 is active"},
		{m(maintenance, holdfastv1.EffectiveState_MAINTENANCE, ""), "m-7: phase MAINTENANCE, as before"},
	} {
		if got := movedSentence(m(maintenance, 0, ""), tt.after); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}
