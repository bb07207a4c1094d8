// Package statemetrics exports metrics of the replicated state: machines, runs, plans and
// webhooks. All peers export the same values, as far as they have applied the log: aggregate
// with max, never with sum.
//
// It must not measure the work of a peer: the packages that do the work measure it.
package statemetrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-metal/holdfast/fsm"
)

// State is this peer's own copy of the replicated state (*fsm.FSM).
type State interface {
	View() *fsm.View
}

// Collectors returns the collectors of all metrics of a state.
func Collectors(state State) []prometheus.Collector {
	return []prometheus.Collector{newStateCollector(state), newWebhookCollector(state)}
}
