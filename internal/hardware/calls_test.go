package hardware

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers/bmc"
)

// TestBMCCalls: operations are counted by provider, and those that a BMC is not to blame for
// have not failed.
func TestBMCCalls(t *testing.T) {
	h, _ := newPeer(t)
	if got := h.BMCCalls(); got != nil {
		t.Errorf("before any call: got %v", got)
	}
	for _, outcome := range bmc.Outcomes() {
		h.count("site-b", bmc.Call{Vendor: "dell", Outcome: outcome})
	}
	h.count("site-a", bmc.Call{Vendor: "hpe", Outcome: "ok"})
	want := []*holdfastv1.ProviderCalls{{Provider: "site-a", Calls: 1}, {Provider: "site-b", Calls: 9, Failed: 6}}
	if diff := cmp.Diff(want, h.BMCCalls(), protocmp.Transform()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}
