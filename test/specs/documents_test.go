package specs_test

import "testing"

// TestDocuments sends every example of the documents, and every request of docs/clients.md that is
// refused, to any peer.
func TestDocuments(t *testing.T) {
	// Longer timeouts avoid elections on a busy machine, whose unknown outcomes are in no document.
	w := start(t, 4)
	t.Run("machine registration", func(t *testing.T) { machineAPI(t, w) })
	t.Run("pools", func(t *testing.T) { poolAPI(t, w) })
	t.Run("discovery", func(t *testing.T) { discoveryAPI(t, w) })
	t.Run("nodes", func(t *testing.T) { nodeAPI(t, w) })
	t.Run("notifications", func(t *testing.T) { notifications(t, w) })
	t.Run("curl of specs/000", func(t *testing.T) { w.curl(t, "testdata/000.md") })
	t.Run("odd", func(t *testing.T) { odd(t, w) })
	t.Run("curl of docs/clients.md", func(t *testing.T) { w.curl(t, "../../docs/clients.md") })
}
