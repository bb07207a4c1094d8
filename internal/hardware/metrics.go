package hardware

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-metal/holdfast/providers/bmc"
)

// metrics are the metrics of operations on BMCs, which only the leader makes.
type metrics struct {
	calls   *prometheus.CounterVec
	seconds *prometheus.HistogramVec
}

// newMetrics registers the metrics of operations on BMCs.
func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "holdfast_bmc_calls_total",
			Help: "Operations on BMCs by vendor and outcome: ok, the class of the error, or breaker-open: not sent, because " +
				"it did not answer before."}, []string{"vendor", "outcome"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "holdfast_bmc_call_seconds",
			Help:    "How long operations on BMCs took, waits for other operations on the same BMC included.",
			Buckets: []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}}, []string{"vendor"}),
	}
	for _, outcome := range bmc.Outcomes() { // so that rates start from zero
		m.calls.WithLabelValues(bmc.Vendors()[0], outcome)
	}
	m.seconds.WithLabelValues(bmc.Vendors()[0])
	reg.MustRegister(m.calls, m.seconds)
	return m
}

// count counts an operation on a BMC of a provider.
func (h *Hardware) count(provider string, c bmc.Call) {
	h.calls.count(provider, c.Outcome)
	if h.metrics == nil {
		return
	}
	h.metrics.calls.WithLabelValues(c.Vendor, c.Outcome).Inc()
	h.metrics.seconds.WithLabelValues(c.Vendor).Observe(c.Took.Seconds())
}
