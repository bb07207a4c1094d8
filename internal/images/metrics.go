package images

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-metal/holdfast/internal/images/blob"
)

// metrics are the metrics of a Depot.
type metrics struct {
	fetches *prometheus.CounterVec
	fetched *prometheus.CounterVec
	served  prometheus.Counter
	missing prometheus.Gauge
	damaged prometheus.Counter
}

func newMetrics(r prometheus.Registerer, store *blob.Store) *metrics {
	m := &metrics{
		fetches: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "holdfast_image_fetches_total",
			Help: "Attempts to fetch a file of an image, by source (peer, url) and outcome (ok, failed).",
		}, []string{"source", "outcome"}),
		fetched: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "holdfast_image_fetched_bytes_total",
			Help: "Bytes of image files received by this peer, by source (peer, url, upload).",
		}, []string{"source"}),
		served: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "holdfast_image_served_bytes_total",
			Help: "Bytes of image files served by this peer over HTTP.",
		}),
		missing: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "holdfast_image_files_missing",
			Help: "Files of images that this peer does not have.",
		}),
		damaged: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "holdfast_image_files_damaged_total",
			Help: "Files of images found on this peer's disk with a wrong checksum.",
		}),
	}
	if r == nil {
		return m
	}
	stored := prometheus.GaugeOpts{
		Name: "holdfast_image_stored_bytes",
		Help: "Bytes of image files on this peer's disk, complete or not.",
	}
	r.MustRegister(m.fetches, m.fetched, m.served, m.missing, m.damaged,
		prometheus.NewGaugeFunc(stored, func() float64 {
			_, bytes := store.Usage()
			return float64(bytes)
		}))
	return m
}

// outcome returns the value of the label outcome.
func result(err error) string {
	if err != nil {
		return "failed"
	}
	return "ok"
}
