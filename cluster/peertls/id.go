package peertls

import (
	"crypto/x509"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// trustDomain is the SPIFFE trust domain of all clusters. The path names the cluster.
const trustDomain = "holdfast"

// name matches the path segments that SPIFFE allows, without "." and ".." (SPIFFE-ID §2.2).
var name = regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`)

// CheckName returns an error if a certificate cannot name a cluster or peer s.
func CheckName(what, s string) error {
	if s == "." || s == ".." || !name.MatchString(s) {
		return fmt.Errorf("%s %q: want 1 to 128 letters, digits, dots, dashes or underscores", what, s)
	}
	return nil
}

// PeerURI returns the URI of a peer in its certificate.
func PeerURI(cluster, id string) *url.URL {
	return &url.URL{Scheme: "spiffe", Host: trustDomain, Path: "/" + cluster + "/peer/" + id}
}

// ClusterURI returns the URI in the certificate of a cluster's CA. It names the cluster
// whose peers the CA certifies.
func ClusterURI(cluster string) *url.URL {
	return &url.URL{Scheme: "spiffe", Host: trustDomain, Path: "/" + cluster}
}

// PeerID returns the peer that a certificate names: spiffe://holdfast/<cluster>/peer/<id>
// must be its only URI. It does not verify the certificate.
func PeerID(cert *x509.Certificate) (cluster, id string, ok bool) {
	if len(cert.URIs) != 1 { // SPIFFE's X.509-SVID §2: exactly one
		return "", "", false
	}
	path, ok := spiffePath(cert.URIs[0])
	if !ok || len(path) != 3 || path[1] != "peer" {
		return "", "", false
	}
	return path[0], path[2], true
}

// ClusterOf returns the cluster that a CA certificate belongs to.
func ClusterOf(ca *x509.Certificate) (string, bool) {
	if !ca.IsCA || len(ca.URIs) != 1 {
		return "", false
	}
	path, ok := spiffePath(ca.URIs[0])
	if !ok || len(path) != 1 {
		return "", false
	}
	return path[0], true
}

// PeersURI returns the URI in the certificate of a CA that certifies only the peers of a cluster.
func PeersURI(cluster string) *url.URL {
	return &url.URL{Scheme: "spiffe", Host: trustDomain, Path: "/" + cluster + "/peers"}
}

// PeersCA returns the cluster whose peers a CA certifies, and whether it may certify nothing else.
func PeersCA(ca *x509.Certificate) (cluster string, only bool) {
	if !ca.IsCA || len(ca.URIs) != 1 {
		return "", false
	}
	path, ok := spiffePath(ca.URIs[0])
	if !ok || len(path) != 2 || path[1] != "peers" {
		return "", false
	}
	return path[0], true
}

// issuedPrefix begins the serial number in the name of a peer's certificate.
const issuedPrefix = "issued "

// IssuedAs returns the serial number in the name of a certificate that is made at a time. Its
// validity begins earlier, because clocks differ.
func IssuedAs(at time.Time) string { return issuedPrefix + at.UTC().Format(time.RFC3339Nano) }

// Issued returns when a certificate was made. Certificates of other tools do not say; their
// validity has begun then.
func Issued(cert *x509.Certificate) time.Time {
	if text, ok := strings.CutPrefix(cert.Subject.SerialNumber, issuedPrefix); ok {
		if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
			return at
		}
	}
	return cert.NotBefore
}

// claimsPeer reports whether a certificate names anything in our trust domain. Such a
// certificate must be a peer's.
func claimsPeer(cert *x509.Certificate) bool {
	return slices.ContainsFunc(cert.URIs, func(u *url.URL) bool {
		return strings.EqualFold(u.Scheme, "spiffe") && strings.EqualFold(u.Hostname(), trustDomain)
	})
}

// spiffePath returns the path segments of a URI in our trust domain. It accepts only the
// canonical spelling: no escapes, port, query or empty segments.
func spiffePath(u *url.URL) ([]string, bool) {
	if u.Scheme != "spiffe" || u.Host != trustDomain || u.User != nil || u.Opaque != "" ||
		u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || u.RawFragment != "" || u.RawPath != "" {
		return nil, false
	}
	rest, ok := strings.CutPrefix(u.Path, "/")
	if !ok {
		return nil, false
	}
	path := strings.Split(rest, "/")
	for _, s := range path {
		if CheckName("segment", s) != nil {
			return nil, false
		}
	}
	return path, true
}
