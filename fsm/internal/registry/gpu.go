package registry

import (
	"cmp"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm/internal/limits"
	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Limits of a pool.
const (
	maxPoolText = 255 // bytes a field
)

// checkGpus returns the violations of the GPUs in a message. The prefix is that of its fields.
func checkGpus(prefix string, gpus []*holdfastv1.Gpu) []refusal.FieldViolation {
	bad := refusal.Violations{Prefix: prefix}
	if len(gpus) > limits.Gpus {
		bad.Add("gpus", "are %d, at most %d are allowed", len(gpus), limits.Gpus)
		return bad.Fields
	}
	seen := map[int32]bool{}
	for i, g := range gpus {
		at := fmt.Sprintf("gpus[%d]", i)
		switch {
		case seen[g.GetId()]:
			bad.Add(at+".id", "%d is the id of another GPU of the pool too", g.GetId())
		// NaN fails these comparisons too.
		case !(g.GetTotalVramGb() >= 0) || !(g.GetAvailableVramGb() >= 0) || g.GetTotalVramGb() > 1e6 ||
			g.GetAvailableVramGb() > 1e6:
			bad.Add(at, "VRAM is not a number of gigabytes")
		case len(g.GetModel()) > maxPoolText || len(g.GetComputeCapability()) > maxPoolText ||
			len(g.GetWorkers()) > limits.Workers:
			bad.Add(at, "is too long")
		}
		seen[g.GetId()] = true
	}
	return bad.Fields
}

// keepMeasured copies the measurements of the last heartbeat to a registration, which has
// none, so that a healthy pool that registers again stays in placement.
func keepMeasured(old, registered []*holdfastv1.Gpu) {
	last := map[int32]*holdfastv1.Gpu{}
	for _, g := range old {
		last[g.GetId()] = g
	}
	for _, g := range registered {
		k := last[g.GetId()]
		if k == nil || g.GetAvailableVramGb() > 0 || len(g.GetWorkers()) > 0 {
			continue
		}
		if g.Workers = k.GetWorkers(); k.AvailableVramGb != nil {
			free := k.GetAvailableVramGb()
			if g.TotalVramGb != nil {
				free = min(free, g.GetTotalVramGb())
			}
			g.AvailableVramGb = &free
		}
		g.TemperatureCelsius = cmp.Or(g.TemperatureCelsius, k.TemperatureCelsius)
	}
}

// mergeGpus updates registered GPUs with reported ones. Heartbeats have no models. A GPU
// missing from the report has no free memory. One that is not registered is ignored: without its
// registration nothing is known of it, and it would add capacity.
func mergeGpus(known, seen []*holdfastv1.Gpu) []*holdfastv1.Gpu {
	reported := map[int32]*holdfastv1.Gpu{}
	for _, g := range seen {
		reported[g.GetId()] = g
	}
	for _, k := range known {
		g, ok := reported[k.GetId()]
		if !ok {
			k.AvailableVramGb, k.Workers, k.TemperatureCelsius = proto.Float64(0), nil, nil
			continue
		}
		k.Model = cmp.Or(g.GetModel(), k.GetModel())
		k.ComputeCapability = cmp.Or(g.GetComputeCapability(), k.GetComputeCapability())
		if g.GetTotalVramGb() > 0 {
			k.TotalVramGb = g.TotalVramGb
		}
		k.AvailableVramGb, k.Workers, k.TemperatureCelsius = g.AvailableVramGb, g.GetWorkers(), g.TemperatureCelsius
	}
	return known
}
