package server

import (
	"github.com/prometheus/client_golang/prometheus"
)

// webhookCollector reads how far the webhooks are when the metrics are scraped. As with
// stateCollector every peer says the same.
type webhookCollector struct {
	state                    State
	behind, failures, missed *prometheus.Desc
}

func newWebhookCollector(state State) *webhookCollector {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, []string{"webhook"}, nil)
	}
	return &webhookCollector{
		state:    state,
		behind:   desc("holdfast_webhook_behind_events", "Events that a webhook has not come to yet, wanted or not; 0 for one that is disabled."),
		failures: desc("holdfast_webhook_failures", "Tries in a row to tell a webhook something that have failed; 0 for one that is disabled."),
		missed:   desc("holdfast_webhook_missed_events_total", "Events that were not kept any more when it was their turn."),
	}
}

// Describe implements prometheus.Collector.
func (c *webhookCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.behind
	ch <- c.failures
	ch <- c.missed
}

// Collect implements prometheus.Collector.
func (c *webhookCollector) Collect(ch chan<- prometheus.Metric) {
	for w := range c.state.View().Webhooks("") {
		behind, failures := float64(w.GetBehind()), float64(w.GetFailures())
		if w.GetDisabled() { // somebody wants it so
			behind, failures = 0, 0
		}
		ch <- prometheus.MustNewConstMetric(c.behind, prometheus.GaugeValue, behind, w.GetName())
		ch <- prometheus.MustNewConstMetric(c.failures, prometheus.GaugeValue, failures, w.GetName())
		ch <- prometheus.MustNewConstMetric(c.missed, prometheus.CounterValue, float64(w.GetMissed()), w.GetName())
	}
}
