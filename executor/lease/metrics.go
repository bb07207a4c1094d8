package lease

import "github.com/prometheus/client_golang/prometheus"

// metrics are the metrics of the leases. Without a registerer they are not exported.
type metrics struct {
	commits, lost *prometheus.CounterVec
	recorded      prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, e *Engine) *metrics {
	m := &metrics{
		commits: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "holdfast_lease_commits_total",
			Help: "Commands that commit heartbeats.",
		}, []string{"outcome"}),
		lost: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "holdfast_lease_expiries_total",
			Help: "Leases proposed to be expired.",
		}, []string{"outcome"}),
		recorded: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "holdfast_lease_recorded_total",
			Help: "Committed heartbeats.",
		}),
	}
	for _, o := range []string{"applied", "failed"} { // so that rates start from zero
		m.commits.WithLabelValues(o)
		m.lost.WithLabelValues(o)
	}
	if reg == nil {
		return m
	}
	reg.MustRegister(m.commits, m.lost, m.recorded,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "holdfast_leases",
			Help: "Live leases on the leader; 0 on followers.",
		}, func() float64 {
			live, _ := e.Load()
			return float64(live)
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "holdfast_lease_load",
			Help: "Heartbeats per second received by the leader; 0 on followers.",
		}, func() float64 {
			_, rate := e.Load()
			return rate
		}))
	return m
}

// Load returns the number of live leases and the heartbeats received per second. Both are
// 0 unless this peer leads.
func (e *Engine) Load() (live int, rate float64) {
	ts := e.current.Load()
	if ts == nil {
		return 0, 0
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return len(ts.order.entries), ts.meter.load
}

func result(err error) string {
	if err != nil {
		return "failed"
	}
	return "applied"
}

func (m *metrics) committed(n int, err error) {
	m.commits.WithLabelValues(result(err)).Inc()
	if err == nil {
		m.recorded.Add(float64(n))
	}
}

func (m *metrics) expired(n int, err error) { m.lost.WithLabelValues(result(err)).Add(float64(n)) }
