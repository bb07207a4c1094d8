package peertls

import (
	"crypto/x509"

	"github.com/prometheus/client_golang/prometheus"
)

// ending is a certificate and its file.
type ending struct {
	file string
	cert *x509.Certificate
}

func (e ending) key() string { return e.file + "\x00" + e.cert.SerialNumber.String() }

// ends returns the certificates of a set with their files.
func (m *set) ends(c *Config) []ending {
	es := []ending{{file: c.Cert, cert: m.leaf}}
	if m.renewed {
		es[0].file = c.Renewed
	}
	for _, ca := range m.peerCAs {
		es = append(es, ending{file: c.PeerCA, cert: ca})
	}
	for _, ca := range m.cas {
		es = append(es, ending{file: c.CA, cert: ca})
	}
	return es
}

// collector exports metrics of the certificates in use.
type collector struct{ s *Store }

var (
	expiryDesc = prometheus.NewDesc("holdfast_tls_certificate_expiry_seconds",
		"When the first of the certificates in use from a file ends, in seconds since 1970.", []string{"file"}, nil)
	brokenDesc = prometheus.NewDesc("holdfast_tls_files_broken",
		"1 when the certificate files cannot be used as they are, and older certificates stay in use.", nil, nil)
	lateDesc = prometheus.NewDesc("holdfast_tls_renewal_late",
		"1 when the peer should have renewed its certificate long ago.", nil, nil)
)

// Describe implements prometheus.Collector.
func (c collector) Describe(ch chan<- *prometheus.Desc) {
	ch <- expiryDesc
	ch <- brokenDesc
	ch <- lateDesc
}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	first := map[string]float64{}
	for _, e := range c.s.set.Load().ends(&c.s.cfg) {
		at := float64(e.cert.NotAfter.Unix())
		if had, ok := first[e.file]; !ok || at < had {
			first[e.file] = at
		}
	}
	for file, at := range first {
		ch <- prometheus.MustNewConstMetric(expiryDesc, prometheus.GaugeValue, at, file)
	}
	for desc, is := range map[*prometheus.Desc]bool{brokenDesc: c.s.broken.Load(), lateDesc: c.s.late(c.s.cfg.Now())} {
		value := 0.0
		if is {
			value = 1
		}
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value)
	}
}
