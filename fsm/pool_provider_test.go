package fsm_test

import (
	"fmt"
	"testing"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

func providerOp(id, pool string) *internalv1.RegisterProvider {
	return &internalv1.RegisterProvider{Provider: &holdfastv1.PlatformProvider{ProviderId: id, PoolId: pool,
		Endpoint: "https://" + pool + ".example"}}
}

// TestProvidersByCaller checks that the manager of a pool can register the providers
// of its pool, and cannot replace others.
func TestProvidersByCaller(t *testing.T) {
	manager := func(pool string) *internalv1.Origin {
		return &internalv1.Origin{Role: holdfastv1.Role_POOL_AGENT, Pools: []string{pool}}
	}
	const denied, scope = fsm.PermissionDenied, fsm.ReasonOutOfScope
	for _, tt := range []struct {
		name   string
		origin *internalv1.Origin
		op     *internalv1.RegisterProvider
		code   fsm.Code
		reason string
		pool   string // of the provider afterwards
	}{
		{"a new one", manager("a"), providerOp("new", "a"), 0, "", "a"},
		{"a new one for another pool", manager("a"), providerOp("new", "b"), denied, scope, ""},
		{"a new one for no pool", manager("a"), providerOp("new", ""), denied, scope, ""},
		{"his own again", manager("a"), providerOp("of-a", "a"), 0, "", "a"},
		{"his own away", manager("a"), providerOp("of-a", "b"), denied, scope, "a"},
		{"another pool's", manager("a"), providerOp("of-b", "a"), denied, scope, "b"},
		{"an operator's", manager("a"), providerOp("operators", "a"), denied, scope, ""},
		{"an agent", agent("m-1"), providerOp("new", "a"), denied, scope, ""},
		{"an operator takes one", operator(), providerOp("of-a", "b"), 0, "", "b"},
		{"an operator leaves the pool as it is", operator(), providerOp("of-a", ""), 0, "", "a"},
		{"no such pool name", operator(), providerOp("new", "a b"), fsm.InvalidArgument, "INVALID_FIELD", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := fsmtest.NewPeer()
			for _, op := range []*internalv1.RegisterProvider{providerOp("of-a", "a"), providerOp("of-b", "b"),
				providerOp("operators", "")} {
				do(t, p, op)
			}
			wantAnswer(t, tt.name, from(p, tt.origin, tt.op), tt.code, tt.reason)
			if got, _ := p.View().Provider(tt.op.GetProvider().GetProviderId()); got.GetPoolId() != tt.pool {
				t.Errorf("the provider is of pool %q, want %q", got.GetPoolId(), tt.pool)
			}
		})
	}
}

func TestProvidersOfAPoolAreBounded(t *testing.T) {
	p := fsmtest.NewPeer()
	for i := range 16 {
		do(t, p, providerOp(fmt.Sprint("p-", i), "a"))
	}
	refused(t, p, providerOp("one-more", "a"), fsm.FailedPrecondition, "PROVIDER_LIMIT")
	do(t, p, providerOp("p-3", "a"))
	do(t, p, providerOp("one-more", "b"))
}
