package registry

import (
	"fmt"
	"strings"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/fleet"
	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// CheckPool returns the violations of a declared or registered pool, and trims its texts.
func CheckPool(p *holdfastv1.Pool) []refusal.FieldViolation {
	var bad []refusal.FieldViolation
	add := func(field, format string, args ...any) {
		bad = append(bad, refusal.FieldViolation{Field: "pool." + field, Description: fmt.Sprintf(format, args...)})
	}
	if !lex.ValidName(p.GetPoolId(), core.MaxPoolName) {
		add("pool_id", "%q is not 1 to %d letters, digits, '.', '_', '-' or ':'", p.GetPoolId(), core.MaxPoolName)
	}
	if p == nil {
		return bad
	}
	for _, f := range []struct {
		name  string
		value *string
	}{
		{"provider", &p.Provider}, {"gpu_type", &p.GpuType}, {"endpoint", &p.Endpoint},
		{"node_id", &p.NodeId}, {"region", &p.Region}, {"version", &p.Version},
	} {
		*f.value = strings.TrimSpace(*f.value)
		if len(*f.value) > maxPoolText || strings.ContainsAny(*f.value, "\x00\n\r") {
			add(f.name, "must be one line of at most %d bytes", maxPoolText)
		}
	}
	labels := &holdfastv1.Machine{Labels: p.GetLabels()}
	for _, v := range fleet.NormalizeMachine(labels) {
		add(strings.TrimPrefix(v.Field, "machine."), "%s", v.Description)
	}
	return append(bad, checkGpus(p.GetGpus())...)
}

// CheckPoolReport returns the violations of a heartbeat's numbers. Impossible measurements
// are refused by field, so that the author of the manager can find the cause.
func CheckPoolReport(r *internalv1.PoolReport) []refusal.FieldViolation {
	bad := checkGpus(r.GetGpus())
	for i := range bad {
		bad[i].Field = strings.TrimPrefix(bad[i].Field, "pool.")
	}
	for i, g := range r.GetGpus() {
		if total := g.GetTotalVramGb(); total > 0 && g.GetAvailableVramGb() > total {
			bad = append(bad, refusal.FieldViolation{Field: fmt.Sprintf("gpus[%d].available_vram_gb", i),
				Description: fmt.Sprintf("is %v, more than total_vram_gb, which is %v", g.GetAvailableVramGb(), total)})
		}
	}
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"workers_total", int64(r.GetWorkersTotal())}, {"workers_ready", int64(r.GetWorkersReady())},
		{"workers_busy", int64(r.GetWorkersBusy())}, {"uptime_seconds", r.GetUptimeSeconds()},
	} {
		if f.value < 0 {
			bad = append(bad, refusal.FieldViolation{
				Field: f.name, Description: fmt.Sprintf("is %d: must not be negative", f.value),
			})
		}
	}
	used := int64(r.GetWorkersReady()) + int64(r.GetWorkersBusy())
	if total := int64(r.GetWorkersTotal()); total > 0 && used > total {
		bad = append(bad, refusal.FieldViolation{
			Field:       "workers_total",
			Description: fmt.Sprintf("is %d, but %d are ready or busy", total, used),
		})
	}
	return bad
}
