package fsm

import (
	"sync"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// maxPlanCache is how many plans are kept decoded.
const maxPlanCache = 64

// planCache has the plans that somebody has looked at, decoded: few plans begin most runs, and each
// of these begins with looks at its plan. It is no part of the state, and gives what decoding
// would. Anybody may use it.
type planCache struct {
	mu    sync.Mutex
	plans map[*record]*holdfastv1.Plan
}

func newPlanCache() *planCache { return &planCache{plans: map[*record]*holdfastv1.Plan{}} }

// get returns a plan of a state. It must not be changed: others have it too.
func (c *planCache) get(s *state, id string) (*holdfastv1.Plan, bool) {
	r, ok := s.plans.rows.Get(&record{key: id})
	if !ok {
		return nil, false
	}
	if p := c.known(r); p != nil {
		return p, true
	}
	p := s.plans.decode(r) // without the lock: Apply must not wait for a reader who decodes
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.plans) >= maxPlanCache { // those that were replaced are among them
		clear(c.plans)
	}
	c.plans[r] = p
	return p, true
}

// known returns the plan of a record, which never changes, or nil.
func (c *planCache) known(r *record) *holdfastv1.Plan {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.plans[r]
}

// plan returns a plan to look at: it must not be changed.
func (t *tx) plan(id string) (*holdfastv1.Plan, bool) { return t.decoded.get(t.state, id) }

// SharedPlan returns a plan to look at. Unlike with Plan, others have it too: it must not be
// changed.
func (v *View) SharedPlan(id string) (*holdfastv1.Plan, bool) { return v.decoded.get(v.state, id) }
