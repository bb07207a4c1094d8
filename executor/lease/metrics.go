package lease

import "github.com/prometheus/client_golang/prometheus"

// metrics of the leases. Without a registerer they count for nobody.
type metrics struct {
	commits, lost *prometheus.CounterVec
	recorded      prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, e *Engine) *metrics {
	m := &metrics{
		commits:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "holdfast_lease_commits_total", Help: "Commands that put heartbeats on record."}, []string{"outcome"}),
		lost:     prometheus.NewCounterVec(prometheus.CounterOpts{Name: "holdfast_lease_expiries_total", Help: "Leases proposed to be over."}, []string{"outcome"}),
		recorded: prometheus.NewCounter(prometheus.CounterOpts{Name: "holdfast_lease_recorded_total", Help: "Heartbeats put on record."}),
	}
	for _, o := range []string{"applied", "failed"} { // a rate wants to begin at zero
		m.commits.WithLabelValues(o)
		m.lost.WithLabelValues(o)
	}
	if reg == nil {
		return m
	}
	reg.MustRegister(m.commits, m.lost, m.recorded,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "holdfast_leases", Help: "Live leases that this leader keeps; 0 on followers."}, func() float64 {
			live, _ := e.Load()
			return float64(live)
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "holdfast_lease_load", Help: "Heartbeats a second that this leader takes."}, func() float64 {
			_, rate := e.Load()
			return rate
		}))
	return m
}

// Load is how many live leases this engine keeps, and how many heartbeats it takes a second: none
// while its peer does not lead.
func (e *Engine) Load() (live int, rate float64) {
	r := e.current.Load()
	if r == nil {
		return 0, 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.order.entries), r.meter.load
}

func outcome(err error) string {
	if err != nil {
		return "failed"
	}
	return "applied"
}

func (m *metrics) committed(n int, err error) {
	m.commits.WithLabelValues(outcome(err)).Inc()
	if err == nil {
		m.recorded.Add(float64(n))
	}
}

func (m *metrics) expired(n int, err error) { m.lost.WithLabelValues(outcome(err)).Add(float64(n)) }
