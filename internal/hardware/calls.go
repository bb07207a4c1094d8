package hardware

import (
	"maps"
	"slices"
	"sync"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers"
)

// calls counts the operations on BMCs by the name of their provider, for the charts of all
// peers.
type calls struct {
	mu  sync.Mutex
	all map[string]callCount
}

type callCount struct{ calls, failed uint64 }

// count counts one operation with an outcome of bmc.Outcomes.
func (c *calls) count(provider, outcome string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[string]callCount{}
	}
	n := c.all[provider]
	n.calls++
	switch outcome {
	case "ok", string(providers.Unsupported), string(providers.Late): // not the fault of a BMC
	default:
		n.failed++
	}
	c.all[provider] = n
}

// BMCCalls returns the number of operations on BMCs since the start, by provider.
func (h *Hardware) BMCCalls() []*holdfastv1.ProviderCalls {
	h.calls.mu.Lock()
	defer h.calls.mu.Unlock()
	var all []*holdfastv1.ProviderCalls
	for _, name := range slices.Sorted(maps.Keys(h.calls.all)) {
		n := h.calls.all[name]
		all = append(all, &holdfastv1.ProviderCalls{Provider: name, Calls: n.calls, Failed: n.failed})
	}
	return all
}
