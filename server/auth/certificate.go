package auth

import (
	"crypto/tls"
	"crypto/x509"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/holdfast-metal/holdfast/cluster/peertls"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// maxName is the maximum length of a principal's name, in bytes.
const maxName = 128

// certificateOf returns the caller named by the client certificate of a connection, or
// nil if there is no certificate. The listener has verified it, but it may have expired
// since.
func (g *Gate) certificateOf(cs *tls.ConnectionState) (*peertls.Caller, *Error) {
	if cs == nil || len(cs.PeerCertificates) == 0 {
		return nil, nil
	}
	if c, ok := peertls.FromState(cs, g.now()); ok {
		if c.Peer != "" && c.Cluster != g.cfg.Cluster { // listeners refuse it too
			return nil, unauthenticated(ReasonBadCredentials,
				"the certificate is that of peer %s of cluster %s: this is cluster %s",
				c.Peer, c.Cluster, g.cfg.Cluster)
		}
		return c, nil
	}
	if end := cs.PeerCertificates[0].NotAfter; g.now().After(end) {
		return nil, unauthenticated(ReasonCertificateExpired,
			"the client certificate expired at %s: create a new one with `holdfast tls cert create --client`",
			end.UTC().Format(time.RFC3339))
	}
	return nil, unauthenticated(ReasonBadCredentials,
		"the client certificate is not verified: use one issued by this cluster's CA")
}

// fromCertificate returns the identity in a client certificate: its common name is the
// user, its organizational units are the roles (docs/security.md). See highest for
// several roles.
func fromCertificate(c *peertls.Caller) (*holdfastv1.Identity, *Error) {
	if c.Peer != "" {
		return &holdfastv1.Identity{Principal: peerPrefix + c.Peer, Method: MethodCertificate}, nil
	}
	return fromSubject(c.Cert)
}

func fromSubject(cert *x509.Certificate) (*holdfastv1.Identity, *Error) {
	name := cert.Subject.CommonName
	if !goodName(name) {
		return nil, unauthenticated(ReasonBadCredentials,
			"the client certificate has the common name %q: want the user's name, up to %d printable bytes",
			clip(name), maxName)
	}
	g := highest(cert.Subject.OrganizationalUnit)
	return &holdfastv1.Identity{Principal: "user:" + name, Role: g.role, Pools: g.pools, Method: MethodCertificate}, nil
}

// goodName reports whether a name is fit for the audit trail.
func goodName(name string) bool {
	return name != "" && len(name) <= maxName && utf8.ValidString(name) &&
		!strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) })
}

func clip(s string) string {
	if len(s) > maxName {
		return strings.ToValidUTF8(s[:maxName], "") + "…" // the cut may be in a character
	}
	return s
}
