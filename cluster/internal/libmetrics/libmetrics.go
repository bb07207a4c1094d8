// Package libmetrics owns the names and units under which the metrics of the libraries (Raft,
// memberlist and bolt) are exported to Prometheus. It must not add metrics of this peer's own.
package libmetrics

import (
	"cmp"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode"

	gometrics "github.com/hashicorp/go-metrics/compat"
	"github.com/prometheus/client_golang/prometheus"
)

// Bridge exports the metrics of raft, memberlist and bolt to a Prometheus
// registerer, as holdfast_raft_… and so on, with Prometheus names and units. These
// libraries share one sink per process, so call it once, before they start.
func Bridge(reg prometheus.Registerer) error {
	b := &metricsSink{series: map[string]prometheus.Metric{}}
	if err := reg.Register(b); err != nil {
		return fmt.Errorf("export library metrics: %w", err)
	}
	c := gometrics.DefaultConfig("holdfast")
	c.EnableHostname, c.EnableRuntimeMetrics = false, false
	c.TimerGranularity = time.Second
	if _, err := gometrics.NewGlobal(c, b); err != nil {
		return fmt.Errorf("export library metrics: %w", err)
	}
	return nil
}

// metricsSink is a go-metrics sink and a Prometheus collector. Its series are known only at
// run time, so it describes none.
type metricsSink struct {
	mu     sync.Mutex // guards series
	series map[string]prometheus.Metric
}

// measure is how a metric of a library is named, based on its own name without the prefix
// "holdfast".
type measure struct {
	suffix string
	scale  float64 // factor for its values
	name   string  // replaces the library's name if Prometheus does not allow that; empty to keep it
}

// measureOf returns how a metric is named and scaled. Samples are durations in seconds,
// except for those listed here.
func measureOf(name string, sample bool) measure {
	switch name {
	case "raft.leader.lastContact",
		"raft.boltdb.txstats.rebalanceTime", "raft.boltdb.txstats.spillTime", "raft.boltdb.txstats.writeTime",
		"raft.fsm.lastRestoreDuration", "raft.oldestLogAge": // in milliseconds at any granularity
		return measure{suffix: "_seconds", scale: 1e-3}
	case "raft.boltdb.logSize", "raft.boltdb.logBatchSize", "raft.boltdb.txstats.pageAlloc",
		"memberlist.size.remote", "memberlist.size.local",
		"memberlist.tcp.sent", "memberlist.udp.sent", "memberlist.udp.received":
		return measure{suffix: "_bytes", scale: 1}
	case "raft.thread.main.saturation", "raft.thread.fsm.saturation":
		return measure{suffix: "_ratio", scale: 1}
	case "raft.fsm.applyBatchNum", "raft.boltdb.logsPerBatch", "raft.boltdb.writeCapacity",
		"memberlist.queue.broadcasts":
		return measure{scale: 1}
	}
	if name := boltName(name); name != "" {
		return measure{scale: 1, name: name}
	}
	if sample {
		return measure{suffix: "_seconds", scale: 1}
	}
	return measure{scale: 1}
}

// boltName returns a better name for a bolt statistic whose name ends in a suffix that Prometheus
// reserves for histograms or types. It returns "" for other metrics.
func boltName(name string) string {
	switch name {
	case "raft.boltdb.numFreePages":
		return "raft.boltdb.freePages"
	case "raft.boltdb.numPendingPages":
		return "raft.boltdb.pendingPages"
	case "raft.boltdb.totalReadTxn":
		return "raft.boltdb.readTransactions"
	case "raft.boltdb.openReadTxn":
		return "raft.boltdb.openReadTransactions"
	case "raft.boltdb.txstats.pageCount":
		return "raft.boltdb.txstats.pages"
	case "raft.boltdb.txstats.cursorCount":
		return "raft.boltdb.txstats.cursors"
	case "raft.boltdb.txstats.nodeCount":
		return "raft.boltdb.txstats.nodes"
	case "raft.boltdb.txstats.nodeDeref":
		return "raft.boltdb.txstats.nodeDereferences"
	}
	return ""
}

// seriesOf returns the metric of a key and its labels. It creates the metric with the first
// value.
func seriesOf[M prometheus.Metric](
	b *metricsSink,
	key []string,
	labels []gometrics.Label,
	what measure,
	kind string,
	create func(name, help string, constant prometheus.Labels) M,
) (m M, ok bool) {
	own := strings.Join(key[1:], ".") // without the prefix "holdfast"
	name := cmp.Or(what.name, own)
	id := own + what.suffix + kind
	for _, l := range labels {
		id += "\x00" + l.Name + "\x00" + l.Value
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if had, there := b.series[id]; there {
		m, ok = had.(M)
		return m, ok // false if a library uses one name for two kinds of metrics
	}
	constant := prometheus.Labels{}
	for _, l := range labels {
		constant[snake(l.Name)] = l.Value
	}
	m = create(snake(key[0]+"_"+name)+what.suffix+kind, "The metric "+own+" of the "+key[1]+" library.", constant)
	b.series[id] = m
	return m, true
}

// snake converts commitTime to commit_time and replaces characters that Prometheus does not
// allow.
func snake(s string) string {
	var b strings.Builder
	lower := false
	for _, r := range s {
		switch {
		case unicode.IsUpper(r):
			if lower {
				b.WriteByte('_')
			}
			b.WriteRune(unicode.ToLower(r))
		case r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)):
			b.WriteRune(r)
		default:
			b.WriteByte('_')
		}
		lower = unicode.IsLower(r) || unicode.IsDigit(r)
	}
	return b.String()
}

// Describe implements prometheus.Collector.
func (b *metricsSink) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (b *metricsSink) Collect(ch chan<- prometheus.Metric) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range b.series {
		ch <- m
	}
}

// SetGauge implements gometrics.MetricSink.
func (b *metricsSink) SetGauge(key []string, v float32) { b.SetGaugeWithLabels(key, v, nil) }

// SetGaugeWithLabels implements gometrics.MetricSink.
func (b *metricsSink) SetGaugeWithLabels(key []string, v float32, labels []gometrics.Label) {
	what := measureOf(strings.Join(key[1:], "."), false)
	g, ok := seriesOf(b, key, labels, what, "", func(name, help string, constant prometheus.Labels) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: constant})
	})
	if ok {
		g.Set(float64(v) * what.scale)
	}
}

// EmitKey implements gometrics.MetricSink. It is unused.
func (b *metricsSink) EmitKey([]string, float32) {}

// IncrCounter implements gometrics.MetricSink.
func (b *metricsSink) IncrCounter(key []string, v float32) { b.IncrCounterWithLabels(key, v, nil) }

// IncrCounterWithLabels implements gometrics.MetricSink.
func (b *metricsSink) IncrCounterWithLabels(key []string, v float32, labels []gometrics.Label) {
	what := measureOf(strings.Join(key[1:], "."), false)
	create := func(name, help string, constant prometheus.Labels) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: constant})
	}
	c, ok := seriesOf(b, key, labels, what, "_total", create)
	if ok && v > 0 { // bolt's counts drop when its file is compacted; a counter cannot
		c.Add(float64(v) * what.scale)
	}
}

// AddSample implements gometrics.MetricSink.
func (b *metricsSink) AddSample(key []string, v float32) { b.AddSampleWithLabels(key, v, nil) }

// AddSampleWithLabels implements gometrics.MetricSink. Durations become histograms, which
// can be added up across peers. Other samples become a sum and a count.
func (b *metricsSink) AddSampleWithLabels(key []string, v float32, labels []gometrics.Label) {
	what := measureOf(strings.Join(key[1:], "."), true)
	value := float64(v) * what.scale
	if what.suffix == "_seconds" {
		create := func(name, help string, constant prometheus.Labels) prometheus.Histogram {
			return prometheus.NewHistogram(prometheus.HistogramOpts{
				Name: name, Help: help, ConstLabels: constant,
				Buckets: prometheus.ExponentialBuckets(0.0001, 3, 12),
			})
		}
		h, ok := seriesOf(b, key, labels, what, "", create)
		if ok {
			h.Observe(value)
		}
		return
	}
	s, ok := seriesOf(b, key, labels, what, "", func(name, help string, constant prometheus.Labels) prometheus.Summary {
		return prometheus.NewSummary(prometheus.SummaryOpts{Name: name, Help: help, ConstLabels: constant})
	})
	if ok {
		s.Observe(value)
	}
}
