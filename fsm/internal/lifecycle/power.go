package lifecycle

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// power returns the power of a machine and the time of its last confirmation. The power is a
// condition that is stored when it changes. Each poll that sees the BMC confirms it, so the later
// of both observations counts. If the BMC cannot be seen, the power is unknown, and the time is
// that of the last observation.
func power(m *holdfastv1.Machine) (holdfastv1.PowerState_Value, *timestamppb.Timestamp) {
	on, bmc := Condition(m, PoweredOn), Condition(m, BMCReachable)
	at := on.GetObservedAt()
	if on == nil || on.GetUnknown() || bmc.GetUnknown() || !bmc.GetStatus() {
		return holdfastv1.PowerState_UNKNOWN, at
	}
	if Before(at, bmc.GetObservedAt()) {
		at = bmc.GetObservedAt()
	}
	if on.GetStatus() {
		return holdfastv1.PowerState_ON, at
	}
	return holdfastv1.PowerState_OFF, at
}
