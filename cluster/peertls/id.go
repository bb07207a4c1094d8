package peertls

import (
	"crypto/x509"
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

// trustDomain is the SPIFFE trust domain of all clusters; the path says which one.
const trustDomain = "holdfast"

// name is what SPIFFE allows in a segment of a path, less what means a directory (SPIFFE-ID §2.2).
var name = regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`)

// CheckName reports whether a cluster or a peer can be named so in a certificate.
func CheckName(what, s string) error {
	if s == "." || s == ".." || !name.MatchString(s) {
		return fmt.Errorf("%s %q: want 1 to 128 letters, digits, dots, dashes or underscores", what, s)
	}
	return nil
}

// PeerURI returns the name of a peer in its certificate.
func PeerURI(cluster, id string) *url.URL {
	return &url.URL{Scheme: "spiffe", Host: trustDomain, Path: "/" + cluster + "/peer/" + id}
}

// ClusterURI returns the name that a CA of a cluster bears, so that it is known whose peers it
// certifies.
func ClusterURI(cluster string) *url.URL {
	return &url.URL{Scheme: "spiffe", Host: trustDomain, Path: "/" + cluster}
}

// PeerID returns the peer that a certificate names: spiffe://holdfast/<cluster>/peer/<id> is its
// only URI. It says nothing of whether the certificate is to be trusted.
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

// ClusterOf returns the cluster whose CA a certificate is.
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

// claimsPeer reports whether a certificate names anything in our trust domain: then it is a peer's,
// or it is wrong.
func claimsPeer(cert *x509.Certificate) bool {
	for _, u := range cert.URIs {
		if strings.EqualFold(u.Scheme, "spiffe") && strings.EqualFold(u.Hostname(), trustDomain) {
			return true
		}
	}
	return false
}

// spiffePath returns the segments of a URI of our trust domain. It takes one spelling of each name:
// nothing escaped, no port, no query, no empty segment.
func spiffePath(u *url.URL) ([]string, bool) {
	if u.Scheme != "spiffe" || u.Host != trustDomain || u.User != nil || u.Opaque != "" || u.RawQuery != "" || u.ForceQuery ||
		u.Fragment != "" || u.RawFragment != "" || u.RawPath != "" {
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
