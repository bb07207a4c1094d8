// Package lifecycle has the states of a machine: its conditions, phase and node state, which of
// them go together, and which may follow which. Its functions depend on their arguments alone.
// It must not know where machines are stored.
package lifecycle

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// The conditions that the FSM sets or reads itself (docs/concepts.md).
const (
	Provisioned       = "Provisioned"
	InCluster         = "InCustomerCluster"
	Drained           = "Drained"
	Degraded          = "Degraded"
	NeedsIntervention = "NeedsIntervention"
	Canceled          = "Canceled"   // the last run that changed the machine was canceled
	AgentReady        = "AgentReady" // the agent of the machine sends heartbeats
	Reachable         = "Reachable"
	BMCReachable      = "BMCReachable"
	PoweredOn         = "PoweredOn"
	// IdentityConflict: another machine seems to have the same MAC address, or serial number and
	// UUID.
	IdentityConflict = "IdentityConflict"
)

// The reasons of the condition Canceled: how far the run was with the disks of its machine.
const (
	CanceledErasing  = "CanceledWhileErasing" // a step that erases had begun, and had not succeeded
	CanceledErased   = "CanceledAfterErasing" // such a step had succeeded
	CanceledHarmless = "Canceled"             // none had begun
)

// DiskInDoubt reports whether a run was canceled while it erased the disks of a machine, and
// nothing has written them since.
func DiskInDoubt(m *holdfastv1.Machine) bool {
	c := Condition(m, Canceled)
	return c.GetStatus() && c.GetReason() == CanceledErasing
}

// ConditionText returns a condition with its status and reason, as the history shows it.
func ConditionText(c *holdfastv1.Condition) string {
	text := c.GetType() + "=" + ConditionStatus(c)
	if c.GetReason() != "" {
		text += " (" + c.GetReason() + ")"
	}
	return text
}

// ConditionStatus returns the status of a condition as text: true, false or unknown.
func ConditionStatus(c *holdfastv1.Condition) string {
	switch {
	case c.GetUnknown():
		return "unknown"
	case c.GetStatus():
		return "true"
	}
	return "false"
}

// Stale is the reason of conditions that were not observed in time.
const Stale = "Stale"

// expired returns the conditions, those as unknown that should have been observed again by
// now. It uses the record's clock, so every peer computes the same.
func expired(all []*holdfastv1.Condition, now *timestamppb.Timestamp) []*holdfastv1.Condition {
	shared := true
	for i, c := range all {
		until := c.GetFreshUntil()
		if c.GetUnknown() || until == nil || !Before(until, now) {
			continue
		}
		if shared {
			all, shared = slices.Clone(all), false
		}
		message := "it was " + ConditionStatus(c) + " (" + c.GetReason() + ") when it was last seen"
		c = proto.CloneOf(c)
		c.Message = strings.TrimSpace(message)
		c.Unknown, c.UnknownSince, c.Reason = true, until, Stale
		all[i] = c
	}
	return all
}

// Condition returns the condition of a kind, or nil.
func Condition(m *holdfastv1.Machine, kind string) *holdfastv1.Condition {
	for _, c := range m.GetStatus().GetConditions() {
		if c.GetType() == kind {
			return c
		}
	}
	return nil
}

// Observable reports whether a poll may set a condition. Runs and operators set NeedsIntervention
// and Canceled, leases set AgentReady, the run that drains sets Drained, and reports set
// IdentityConflict. During an active run,
// only the run sets Provisioned.
func Observable(m *holdfastv1.Machine, c *holdfastv1.Condition) bool {
	switch c.GetType() {
	case "", NeedsIntervention, Canceled, AgentReady, Drained, IdentityConflict:
		return false
	case Provisioned:
		return Condition(m, Provisioned) != nil && m.GetStatus().GetActiveRunId() == ""
	}
	return true
}

// Before reports whether a is an earlier time than b.
func Before(a, b *timestamppb.Timestamp) bool { return a.AsTime().Before(b.AsTime()) }
