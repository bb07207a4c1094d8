// Package prometheusapi tells Prometheus which machines to scrape: its HTTP service discovery.
//
// It owns the wire form, a list of targets with labels, as
// https://prometheus.io/docs/prometheus/latest/http_sd/ has it. Which machines there are, and which
// of them a caller may see, is MachineService's to say. It must not know the FSM or the cluster.
package prometheusapi
