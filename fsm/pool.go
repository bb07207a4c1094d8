package fsm

import (
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

func poolSchema() *schema[holdfastv1.Pool, *holdfastv1.Pool] {
	return &schema[holdfastv1.Pool, *holdfastv1.Pool]{
		kind: internalv1.SnapshotRecord_POOLS,
		key:  (*holdfastv1.Pool).GetPoolId,
	}
}

func providerSchema() *schema[holdfastv1.PlatformProvider, *holdfastv1.PlatformProvider] {
	return &schema[holdfastv1.PlatformProvider, *holdfastv1.PlatformProvider]{
		kind: internalv1.SnapshotRecord_PROVIDERS,
		key:  (*holdfastv1.PlatformProvider).GetProviderId,
	}
}

func (t *tx) createPool(_ *internalv1.CreatePool) (*holdfastv1.Pool, *Error) { return nil, unbuilt() }

func (t *tx) deletePool(_ *internalv1.DeletePool) *Error { return unbuilt() }

func (t *tx) registerPool(_ *internalv1.RegisterPool) (*holdfastv1.Pool, *Error) {
	return nil, unbuilt()
}

func (t *tx) deregisterPool(_ *internalv1.DeregisterPool) *Error { return unbuilt() }

func (t *tx) registerProvider(_ *internalv1.RegisterProvider) (*holdfastv1.PlatformProvider, *Error) {
	return nil, unbuilt()
}

func (t *tx) sweepPools(_ *internalv1.SweepPools) *Error { return unbuilt() }
