package server

import "github.com/prometheus/client_golang/prometheus"

// callMetrics are the metrics of gRPC calls by full method.
type callMetrics struct {
	handled *prometheus.CounterVec
	seconds *prometheus.HistogramVec
	open    *prometheus.GaugeVec
}

func newCallMetrics(r prometheus.Registerer) *callMetrics {
	m := &callMetrics{
		handled: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "holdfast_grpc_handled_total",
			Help: "gRPC calls that arrived at this peer and have ended, by method and code.",
		}, []string{"method", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "holdfast_grpc_handling_seconds",
			Help:    "Duration of gRPC calls, including forwarding to the leader. Streams: how long they were open.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"method"}),
		open: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "holdfast_grpc_open_streams",
			Help: "Streams open on this peer, by method.",
		}, []string{"method"}),
	}
	r.MustRegister(m.handled, m.seconds, m.open)
	return m
}
