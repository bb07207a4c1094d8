package poolreg

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Values of the label outcome.
const (
	outcomeSuccess = "success" // status 200
	outcomeFailure = "failure" // everything else
)

// metrics are the metrics of POOLREG-18080 for one server.
type metrics struct {
	registrations *prometheus.CounterVec
	heartbeats    *prometheus.CounterVec
	latency       prometheus.Histogram
	connected     prometheus.Gauge
}

// newMetrics creates and registers the metrics. Those of a platform have a prefix, because
// the specification's names are those of the orchestrator. A platform has no heartbeats.
func newMetrics(r prometheus.Registerer, prefix string) (*metrics, error) {
	m := &metrics{
		registrations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "registration_attempts_total", Help: "Registrations that were tried.",
		}, []string{"outcome"}),
		heartbeats: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "heartbeats_sent_total", Help: "Heartbeats that were sent.",
		}, []string{"outcome"}),
		latency: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: prefix + "heartbeat_latency_ms", Help: "Milliseconds until a heartbeat was answered.",
			Buckets: []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 30000},
		}),
		connected: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: prefix + "connection_status", Help: "1 while connected, 0 while not.",
		}),
	}
	if r == nil {
		return m, nil
	}
	err := errors.Join(adopt(r, &m.registrations), adopt(r, &m.connected))
	if prefix == "" {
		err = errors.Join(err, adopt(r, &m.heartbeats), adopt(r, &m.latency))
	}
	if err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	for _, outcome := range []string{outcomeSuccess, outcomeFailure} {
		m.registrations.WithLabelValues(outcome)
		m.heartbeats.WithLabelValues(outcome)
	}
	return m, nil
}

// adopt registers a collector. If an earlier client of the program has registered it, adopt
// uses that one.
func adopt[C prometheus.Collector](r prometheus.Registerer, c *C) error {
	err := r.Register(*c)
	if already, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		if existing, ok := already.ExistingCollector.(C); ok {
			*c = existing
			return nil
		}
	}
	return err
}

func outcome(err error) string {
	if err != nil {
		return outcomeFailure
	}
	return outcomeSuccess
}

func (m *metrics) registered(err error) { m.registrations.WithLabelValues(outcome(err)).Inc() }

func (m *metrics) heartbeat(took time.Duration, err error) {
	m.heartbeats.WithLabelValues(outcome(err)).Inc()
	if err == nil {
		m.latency.Observe(float64(took) / float64(time.Millisecond))
	}
}

func (m *metrics) connection(up bool) {
	if up {
		m.connected.Set(1)
	} else {
		m.connected.Set(0)
	}
}
