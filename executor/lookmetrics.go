package executor

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// lookMetrics tell how looks at machines go. Those of lanes are of the leader alone. Without a
// registerer they count for nobody.
type lookMetrics struct {
	looks                  *prometheus.CounterVec
	calls, waited          *prometheus.CounterVec
	machines, late, period *prometheus.GaugeVec
}

func newLookMetrics(reg prometheus.Registerer) *lookMetrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"provider", "kind"})
	}
	m := &lookMetrics{
		looks:    counter("holdfast_looks_total", "Looks at machines by provider, kind (reach, health) and outcome; skipped: a run was at work.", "provider", "kind", "outcome"),
		calls:    counter("holdfast_look_calls_total", "Calls that looks have made at a provider.", "provider"),
		waited:   counter("holdfast_look_wait_seconds_total", "Time that looks have waited for the budget of calls.", "provider"),
		machines: gauge("holdfast_look_machines", "Machines that this leader looks at; nothing on followers."),
		late:     gauge("holdfast_look_late_seconds", "How late the look is that has been due the longest."),
		period:   gauge("holdfast_look_period_seconds", "How often each machine is looked at: as configured, or longer where the budget of calls does not allow it."),
	}
	if reg != nil {
		reg.MustRegister(m.looks, m.calls, m.waited, m.machines, m.late, m.period)
	}
	return m
}

func (m *lookMetrics) looked(provider string, kind lookKind, outcome string) {
	m.looks.WithLabelValues(provider, string(kind), outcome).Inc()
}

func (m *lookMetrics) called(provider string, waited time.Duration) {
	m.calls.WithLabelValues(provider).Inc()
	m.waited.WithLabelValues(provider).Add(waited.Seconds())
}

func (m *lookMetrics) lane(k laneKey, machines int, late, period time.Duration) {
	m.machines.WithLabelValues(k.provider, string(k.kind)).Set(float64(machines))
	m.late.WithLabelValues(k.provider, string(k.kind)).Set(late.Seconds())
	m.period.WithLabelValues(k.provider, string(k.kind)).Set(period.Seconds())
}

// over reports that the term has ended: another peer looks now.
func (m *lookMetrics) over() {
	m.machines.Reset()
	m.late.Reset()
	m.period.Reset()
}
