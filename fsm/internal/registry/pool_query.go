package registry

import (
	"iter"
	"strings"

	"github.com/holdfast-metal/holdfast/fsm/internal/table"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Pool returns a pool.
func (v *View) Pool(id string) (*holdfastv1.Pool, bool) {
	p, ok := v.s.Pools.Get(id)
	if !ok {
		return nil, false
	}
	return wholePool(v.s, p), true
}

// Pools returns the pools with an id above after, by id, including archived ones.
func (v *View) Pools(after string) iter.Seq[*holdfastv1.Pool] {
	return table.Map(v.s.Pools.Ascend("", after), func(p *holdfastv1.Pool) *holdfastv1.Pool { return wholePool(v.s, p) })
}

// PoolQuery selects pools for placement. The zero value matches any pool.
type PoolQuery struct {
	MinFreeVRAM float64 // gigabytes, on one GPU
	GPUModel    string
	Region      string
}

// Match reports whether a pool matches the query. Only healthy pools have free memory, and
// one GPU must match both the model and the memory. Models and regions are compared without
// case.
func (q PoolQuery) Match(p *holdfastv1.Pool) bool {
	if q.Region != "" && !strings.EqualFold(q.Region, p.GetRegion()) {
		return false
	}
	if q.MinFreeVRAM <= 0 && q.GPUModel == "" {
		return true
	}
	for _, g := range p.GetGpus() {
		free := q.MinFreeVRAM <= 0 || p.GetStatus() == holdfastv1.Pool_HEALTHY &&
			g.GetAvailableVramGb() >= q.MinFreeVRAM
		if free && (q.GPUModel == "" || strings.EqualFold(q.GPUModel, g.GetModel())) {
			return true
		}
	}
	return false
}
