package lifecycle

import (
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func at(seconds int64) *timestamppb.Timestamp { return &timestamppb.Timestamp{Seconds: seconds} }

// TestPower checks that the power is known only while the BMC is, and that each poll of the BMC
// confirms it.
func TestPower(t *testing.T) {
	type cond = holdfastv1.Condition
	on := &cond{Type: PoweredOn, Status: true, ObservedAt: at(10)}
	off := &cond{Type: PoweredOn, ObservedAt: at(10)}
	bmc := func(second int64) *cond { return &cond{Type: BMCReachable, Status: true, ObservedAt: at(second)} }
	const unknown, isOn, isOff = holdfastv1.PowerState_UNKNOWN, holdfastv1.PowerState_ON, holdfastv1.PowerState_OFF
	for name, tt := range map[string]struct {
		conditions []*cond
		want       holdfastv1.PowerState_Value
		at         int64 // 0: never
	}{
		"never observed":            {nil, unknown, 0},
		"BMC without a power":       {[]*cond{bmc(10)}, unknown, 0},
		"on":                        {[]*cond{bmc(10), on}, isOn, 10},
		"off":                       {[]*cond{bmc(10), off}, isOff, 10},
		"confirmed by a later poll": {[]*cond{bmc(25), off}, isOff, 25},
		"newer than the last poll":  {[]*cond{bmc(5), on}, isOn, 10},
		"BMC does not answer": {[]*cond{{Type: BMCReachable, ObservedAt: at(20)}, on},
			unknown, 10},
		"BMC is not asked": {[]*cond{{Type: BMCReachable, Status: true, Unknown: true}, on},
			unknown, 10},
		"BMC does not show it": {[]*cond{bmc(20), {Type: PoweredOn, Status: true, Unknown: true,
			ObservedAt: at(20)}}, unknown, 20},
		"BMC observation has expired": {[]*cond{{Type: BMCReachable, Status: true, FreshUntil: at(30)},
			on}, unknown, 10},
	} {
		m := Derive(&holdfastv1.Machine{Status: &holdfastv1.MachineStatus{Conditions: tt.conditions}}, at(40))
		if got := m.GetStatus(); got.GetPower() != tt.want || got.GetPowerObservedAt().GetSeconds() != tt.at {
			t.Errorf("%s: got %s at %v, want %s at %d", name, got.GetPower(), got.GetPowerObservedAt(), tt.want, tt.at)
		}
		if c := Condition(m, PoweredOn); c != nil && c.GetUnknown() != (tt.want == unknown) {
			t.Errorf("%s: got the condition %v while the power is %s", name, c, tt.want)
		}
	}
}
