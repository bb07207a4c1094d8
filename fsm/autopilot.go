package fsm

import (
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// minDeadServer is the shortest time after which a peer may count as permanently gone, in
// milliseconds. A reboot of its host must not count.
const minDeadServer = 60_000

// setAutopilot replaces the rules by which leaders change the membership automatically.
func (t *tx) setAutopilot(c *internalv1.SetAutopilot) *Error {
	a := c.GetConfig()
	switch {
	case a == nil:
		return invalid("config", "is required")
	case a.GetDeadServerMs() != 0 && a.GetDeadServerMs() < minDeadServer:
		return invalid("config.dead_server_threshold",
			"is %d ms, at least %d ms are wanted: a reboot is no reason", a.GetDeadServerMs(), minDeadServer)
	case a.GetStabilizationMs() < 0 || a.GetDeadServerMs() < 0:
		return invalid("config", "has a time below zero")
	case a.GetMinQuorum() == 1 || a.GetMinQuorum() == 2:
		return invalid("config.min_quorum", "is %d: with fewer than three voters none may fail", a.GetMinQuorum())
	}
	t.meta.Autopilot = a
	return nil
}
