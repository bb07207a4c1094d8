package auth

import "github.com/prometheus/client_golang/prometheus"

// metrics counts the refusals of the gate. No label contains a value sent by a caller.
type metrics struct {
	refused *prometheus.CounterVec
	merged  prometheus.Counter
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "holdfast_auth_refused_total",
			Help: "Calls refused by this peer, by reason: credentials, roles, and limits.",
		}, []string{"reason"}),
		merged: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "holdfast_auth_denials_merged_total",
			Help: "Refused calls that the audit trail counts without details, because there were too many.",
		}),
	}
	if r != nil {
		r.MustRegister(m.refused, m.merged)
	}
	return m
}
