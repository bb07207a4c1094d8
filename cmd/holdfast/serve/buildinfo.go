package serve

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
)

// buildInfo exports the build as a metric. Alerts on mixed versions and dashboards read it.
func buildInfo(version string) prometheus.Collector {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: "holdfast_build_info",
		Help:        "1, with the version of this peer and the Go that it was built with.",
		ConstLabels: prometheus.Labels{"version": version, "goversion": runtime.Version()}})
	g.Set(1)
	return g
}
