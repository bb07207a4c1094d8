package auth

import "github.com/prometheus/client_golang/prometheus"

// metrics counts what the gate refuses. No label comes from a caller.
type metrics struct {
	refused *prometheus.CounterVec
	merged  prometheus.Counter
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "holdfast_auth_refused_total",
			Help: "Calls that were refused at this peer, by reason: credentials, roles, and limits.",
		}, []string{"reason"}),
		merged: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "holdfast_auth_denials_merged_total",
			Help: "Refused calls that are in the audit trail without their particulars, because there were too many of them.",
		}),
	}
	if r != nil {
		r.MustRegister(m.refused, m.merged)
	}
	return m
}
