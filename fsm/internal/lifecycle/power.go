package lifecycle

import (
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// withoutBMC returns the conditions, with PoweredOn as unknown while the BMC is not reachable or
// its state is unknown: nothing has confirmed the power since. The reason stays, as it has the
// cause of the last known power.
func withoutBMC(all []*holdfastv1.Condition) []*holdfastv1.Condition {
	on, bmc := find(all, PoweredOn), find(all, BMCReachable)
	if on < 0 || all[on].GetUnknown() || bmc < 0 || all[bmc].GetStatus() && !all[bmc].GetUnknown() {
		return all
	}
	c := proto.CloneOf(all[on])
	c.Unknown, c.UnknownSince = true, all[bmc].GetLastTransition()
	if all[bmc].GetUnknown() {
		c.UnknownSince = all[bmc].GetUnknownSince()
	}
	all = slices.Clone(all)
	all[on] = c
	return all
}

// find returns the index of the condition of a kind, or -1.
func find(all []*holdfastv1.Condition, kind string) int {
	return slices.IndexFunc(all, func(c *holdfastv1.Condition) bool { return c.GetType() == kind })
}

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
