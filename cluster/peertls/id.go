package peertls

import (
	"crypto/x509"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
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
