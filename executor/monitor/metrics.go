package monitor

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// pollMetrics are the metrics of polls. The gauges of queues exist only on the leader.
// Without a registerer the metrics are not exported.
type pollMetrics struct {
	polls                  *prometheus.CounterVec
	calls, waited          *prometheus.CounterVec
	machines, late, period *prometheus.GaugeVec
}

func newPollMetrics(reg prometheus.Registerer) *pollMetrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"provider", "kind"})
	}
	m := &pollMetrics{
		polls: counter("holdfast_polls_total",
			"Polls of machines by provider, kind (reach, health) and outcome (skipped: during a run).",
			"provider", "kind", "outcome"),
		calls: counter("holdfast_poll_calls_total", "Calls to a provider by polls.", "provider"),
		waited: counter("holdfast_poll_wait_seconds_total",
			"Time that polls have waited for the budget of calls.", "provider"),
		machines: gauge("holdfast_poll_machines", "Machines that the leader polls; absent on followers."),
		late:     gauge("holdfast_poll_late_seconds", "Delay of the poll that is overdue the longest."),
		period: gauge("holdfast_poll_period_seconds",
			"Interval between polls of each machine: as configured, or longer if the budget of calls requires it."),
	}
	if reg != nil {
		reg.MustRegister(m.polls, m.calls, m.waited, m.machines, m.late, m.period)
	}
	return m
}

func (m *pollMetrics) polled(provider string, kind pollKind, outcome string) {
	m.polls.WithLabelValues(provider, string(kind), outcome).Inc()
}

func (m *pollMetrics) called(provider string, waited time.Duration) {
	m.calls.WithLabelValues(provider).Inc()
	m.waited.WithLabelValues(provider).Add(waited.Seconds())
}

func (m *pollMetrics) queue(k pollKey, machines int, late, period time.Duration) {
	m.machines.WithLabelValues(k.provider, string(k.kind)).Set(float64(machines))
	m.late.WithLabelValues(k.provider, string(k.kind)).Set(late.Seconds())
	m.period.WithLabelValues(k.provider, string(k.kind)).Set(period.Seconds())
}

// over removes the gauges when the term ends: another peer polls now.
func (m *pollMetrics) over() {
	m.machines.Reset()
	m.late.Reset()
	m.period.Reset()
}
