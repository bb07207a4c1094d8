package peertls

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
)

// Caller is the verified identity of the other end of a connection.
type Caller struct {
	// Cert is the caller's own certificate.
	Cert *x509.Certificate
	// Cluster and Peer are set if the certificate is a peer's, and empty for clients. The
	// listeners of a Store refuse peers of other clusters.
	Cluster, Peer string
}

// FromContext returns the caller of a gRPC call. ok is false if the connection has no TLS,
// or if the caller presented no certificate or one that has expired since.
func FromContext(ctx context.Context, now time.Time) (*Caller, bool) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil, false
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok {
		return nil, false
	}
	return FromState(&info.State, now)
}

// FromState returns the caller of a TLS connection, such as http.Request.TLS. The listener is one
// of a Store, which has verified the certificate in the handshake. cs may be nil.
func FromState(cs *tls.ConnectionState, now time.Time) (*Caller, bool) {
	if cs == nil || !cs.HandshakeComplete || len(cs.PeerCertificates) == 0 {
		return nil, false
	}
	c := &Caller{Cert: cs.PeerCertificates[0]}
	if now.After(c.Cert.NotAfter) {
		return nil, false
	}
	c.Cluster, c.Peer, _ = PeerID(c.Cert)
	for _, ca := range cs.PeerCertificates[1:] {
		if of, only := PeersCA(ca); only && (c.Peer == "" || c.Cluster != of) {
			return nil, false // it must not certify that
		}
	}
	return c, true
}
