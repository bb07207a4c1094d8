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
	bad := refusal.Violations{Prefix: "pool."}
	if !lex.ValidName(p.GetPoolId(), core.MaxPoolName) {
		bad.Add("pool_id", "%q is not 1 to %d letters, digits, '.', '_', '-' or ':'", p.GetPoolId(), core.MaxPoolName)
	}
	if p == nil {
		return bad.Fields
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
			bad.Add(f.name, "must be one line of at most %d bytes", maxPoolText)
		}
	}
	labels := &holdfastv1.Machine{Labels: p.GetLabels()}
	for _, v := range fleet.NormalizeMachine(labels) {
		bad.Add(strings.TrimPrefix(v.Field, "machine."), "%s", v.Description)
	}
	return append(bad.Fields, checkGpus("pool.", p.GetGpus())...)
}

// endpointProblem returns the reason why a text is not the URL of an endpoint, or "". An unset one
// is valid.
func endpointProblem(s string) string {
	u, ok := lex.ParseURL(s)
	switch {
	case s == "" || ok && u.IsWeb() && !u.User:
		return ""
	case ok && u.User:
		return "must not contain a user or password" // and is not repeated here
	}
	return fmt.Sprintf("%q is not a URL such as http://10.0.0.7:9200", lex.Clip(s, 64))
}

// CheckPoolReport returns the violations of a heartbeat's numbers. Impossible measurements
// are refused by field, so that the author of the manager can find the cause.
func CheckPoolReport(r *internalv1.PoolReport) []refusal.FieldViolation {
	bad := refusal.Violations{Fields: checkGpus("", r.GetGpus())}
	for i, g := range r.GetGpus() {
		if total := g.GetTotalVramGb(); total > 0 && g.GetAvailableVramGb() > total {
			bad.Add(fmt.Sprintf("gpus[%d].available_vram_gb", i), "is %v, more than total_vram_gb, which is %v",
				g.GetAvailableVramGb(), total)
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
			bad.Add(f.name, "is %d: must not be negative", f.value)
		}
	}
	used := int64(r.GetWorkersReady()) + int64(r.GetWorkersBusy())
	if total := int64(r.GetWorkersTotal()); total > 0 && used > total {
		bad.Add("workers_total", "is %d, but %d are ready or busy", total, used)
	}
	return bad.Fields
}
