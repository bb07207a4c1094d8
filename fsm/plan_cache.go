package fsm

import (
	"sync"

	"github.com/holdfast-metal/holdfast/fsm/internal/table"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// maxPlanCache bounds the number of decoded plans.
const maxPlanCache = 64

// planCache caches decoded plans, because few plans begin most runs, and each run reads its
// plan several times. It is not part of the state. It is safe for concurrent use.
type planCache struct {
	mu    sync.Mutex
	plans map[*table.Record]*holdfastv1.Plan
}

func newPlanCache() *planCache { return &planCache{plans: map[*table.Record]*holdfastv1.Plan{}} }

// get returns a plan of a state. The plan is shared and must not be changed.
func (c *planCache) get(s *state, id string) (*holdfastv1.Plan, bool) {
	r, ok := s.plans.Row(id)
	if !ok {
		return nil, false
	}
	if p := c.known(r); p != nil {
		return p, true
	}
	p := s.plans.Decode(r) // without the lock: Apply must not wait for a reader
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.plans) >= maxPlanCache { // includes plans that were replaced
		clear(c.plans)
	}
	c.plans[r] = p
	return p, true
}

// known returns the cached plan of a record, or nil. Records never change.
func (c *planCache) known(r *table.Record) *holdfastv1.Plan {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.plans[r]
}

// plan returns a shared plan, which must not be changed.
func (t *tx) plan(id string) (*holdfastv1.Plan, bool) { return t.decoded.get(t.state, id) }

// SharedPlan returns a plan that is shared, unlike the one of Plan, and must not be changed.
func (v *View) SharedPlan(id string) (*holdfastv1.Plan, bool) { return v.decoded.get(v.state, id) }
