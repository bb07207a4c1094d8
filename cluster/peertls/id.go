package peertls

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// trustDomain is the SPIFFE trust domain of all clusters. The path names the cluster.
const trustDomain = "holdfast"

// name matches the path segments that SPIFFE allows, without "." and ".." (SPIFFE-ID §2.2).
var name = regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`)

// hostLabel matches a part of the name of a host. Container networks have names with underscores.
var hostLabel = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?$`)

// numeric matches the last part of a name that resolvers take for an IPv4 address.
var numeric = regexp.MustCompile(`^([0-9]+|0[xX][0-9A-Fa-f]*)$`)

// CheckName returns an error if a certificate cannot name a cluster or peer s.
func CheckName(what, s string) error {
	if s == "." || s == ".." || !name.MatchString(s) {
		return fmt.Errorf("%s %q: want 1 to 128 letters, digits, dots, dashes or underscores", what, s)
	}
	return nil
}

// CheckHost returns an error if no peer can have the name or address: an IPv4 address with other
// than four numbers from 0 to 255, a group of hosts, a zone, or a text with a port. The name may
// begin with "*.".
func CheckHost(s string) error {
	if a, err := netip.ParseAddr(s); err == nil {
		if a.Zone() != "" || a.IsMulticast() || a == netip.AddrFrom4([4]byte{255, 255, 255, 255}) {
			return fmt.Errorf("host %q: want the address of one host, without a zone", s)
		}
		return nil
	}
	labels := strings.Split(strings.TrimSuffix(strings.TrimPrefix(s, "*."), "."), ".")
	if len(s) > 253 || slices.ContainsFunc(labels, func(l string) bool { return !hostLabel.MatchString(l) }) {
		return fmt.Errorf("host %q: want a name or an IP address, without a port", s)
	}
	if numeric.MatchString(labels[len(labels)-1]) {
		return fmt.Errorf("host %q: is not an address: an IPv4 address has four numbers from 0 to 255", s)
	}
	return nil
}

// CheckAddress returns an error if an address is not host:port. One to listen on may have no host,
// and port 0, any free port.
func CheckAddress(addr string, listens bool) error {
	host, port, err := net.SplitHostPort(addr)
	n, perr := strconv.ParseUint(port, 10, 16)
	switch {
	case err != nil, perr != nil, n == 0 && !listens, host == "" && !listens:
		return errors.New("want host:port, with a port from 1 to 65535")
	case host == "":
		return nil
	}
	return CheckHost(host)
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
