// Package prometheusapi implements HTTP service discovery for Prometheus: the machines to
// scrape.
//
// It owns the wire form, a list of targets with labels, as described in
// https://prometheus.io/docs/prometheus/latest/http_sd/. MachineService decides which
// machines exist and which of them a caller may see. It must not import the FSM or the
// cluster.
package prometheusapi
