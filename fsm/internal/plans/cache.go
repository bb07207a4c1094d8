package plans

import (
	"sync"

	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	"github.com/holdfast-metal/holdfast/fsm/internal/table"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// NotFound returns the refusal of a command that names an unknown plan.
func NotFound(id string) *refusal.Error {
	return refusal.New(refusal.NotFound, "PLAN_NOT_FOUND", "plan %q not found", id).With("plan_id", id)
}

// maxCached bounds the number of decoded plans.
const maxCached = 64

// Cache caches decoded plans, because few plans begin most runs, and each run reads its
// plan several times. It is not part of the state. It is safe for concurrent use.
type Cache struct {
	mu    sync.Mutex
	plans map[*table.Record]*holdfastv1.Plan
}

// NewCache returns an empty cache.
func NewCache() *Cache { return &Cache{plans: map[*table.Record]*holdfastv1.Plan{}} }

// Get returns a plan of a table. The plan is shared and must not be changed.
func (c *Cache) Get(t *table.Table[*holdfastv1.Plan], id string) (*holdfastv1.Plan, bool) {
	r, ok := t.Row(id)
	if !ok {
		return nil, false
	}
	if p := c.known(r); p != nil {
		return p, true
	}
	p := t.Decode(r) // without the lock: Apply must not wait for a reader
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.plans) >= maxCached { // includes plans that were replaced
		clear(c.plans)
	}
	c.plans[r] = p
	return p, true
}

// known returns the cached plan of a record, or nil. Records never change.
func (c *Cache) known(r *table.Record) *holdfastv1.Plan {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.plans[r]
}
