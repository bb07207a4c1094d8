package machineapi

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// metric is a measurement of an agent. A value that is not a number is NaN: an agent whose sensor
// is broken must not lose its machine, since agents exit after three refused keepalives.
type metric float64

// UnmarshalJSON accepts any value.
func (m *metric) UnmarshalJSON(b []byte) error {
	if len(b) == 0 || b[0] != '"' {
		m.set(string(b))
		return nil
	}
	var s string
	if json.Unmarshal(b, &s) == nil {
		m.set(strings.TrimSpace(s))
	}
	return nil
}

// set sets the measurement from a text. Nothing and null leave it as it is.
func (m *metric) set(s string) {
	if s == "null" || s == "" {
		return
	}
	f, err := strconv.ParseFloat(s, 64) // infinite if it is too large
	if err != nil && !math.IsInf(f, 0) {
		f = math.NaN()
	}
	*m = metric(f)
}

// plainMetrics is metrics without its UnmarshalJSON.
type plainMetrics metrics

// UnmarshalJSON accepts any value. Only an object has metrics.
func (m *metrics) UnmarshalJSON(b []byte) error {
	if !bytes.HasPrefix(b, []byte("{")) {
		return nil
	}
	return json.Unmarshal(b, (*plainMetrics)(m))
}

// bounded returns the metrics for the state. One that is not a number is dropped, and an impossible
// one is replaced with the nearest possible value. The note names them; it is empty if there are
// none.
func (m *metrics) bounded() (out *holdfastv1.AgentMetrics, note string) {
	var odd []string
	within := func(name string, v metric, most float64) float64 {
		f := float64(v)
		switch {
		case math.IsNaN(f):
			odd = append(odd, name+" is not a number")
			return 0
		case f < 0 || f > most:
			odd = append(odd, name+" is not 0 to "+strconv.FormatFloat(most, 'f', -1, 64))
		}
		return min(max(f, 0), most)
	}
	out = &holdfastv1.AgentMetrics{
		CpuUtilizationPct:    within("cpu_utilization_pct", m.CPUUtilization, 100),
		MemoryUtilizationPct: within("memory_utilization_pct", m.MemoryUtilization, 100),
		TotalCpuAvailable:    int64(within("total_cpu_available", m.TotalCPU, maxNumber)),
		TotalMemoryAvailable: memoryMiB(number(within("total_memory_available", m.TotalMemory, maxNumber))),
		FreeGpuCount:         int32(within("free_gpu_count", m.FreeGPUs, 1<<20)),
	}
	return out, strings.Join(odd, "; ")
}
