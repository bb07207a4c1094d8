package lease

import "github.com/holdfast-metal/holdfast/proto/internalv1"

// owner is what heartbeats of a machine must name, as of a mark of its record. The owners
// of other leases are the zero value.
type owner struct {
	mark           any
	pool, provider string
}

// ownerOf returns the owner of a lease. It reads the machine only if its record has changed
// since the last heartbeat of e, which may be nil. It is called with the lock held.
func (ts *termState) ownerOf(k key, e *entry) owner {
	if k.kind != internalv1.LeaseRef_MACHINE {
		return owner{}
	}
	view := ts.followed
	mark := view.MachineMark(k.id)
	if e != nil && mark != nil && e.owner.mark == mark {
		return e.owner
	}
	m, _ := view.Machine(k.id) // find rejects an unknown machine
	return owner{mark: mark, pool: m.GetSpec().GetPool(), provider: m.GetAgent().GetProviderName()}
}

// names reports whether a heartbeat names the pool and the provider of its machine. Clients
// identify a machine by provider, pool and id, so a keepalive with other names is not for
// it. A name that either side leaves empty matches.
func (o *owner) names(rn *internalv1.Renewal) bool {
	return match(rn.GetPoolName(), o.pool) && match(rn.GetProviderName(), o.provider)
}

func match(a, b string) bool { return a == "" || b == "" || a == b }
