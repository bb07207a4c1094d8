package peertls

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
)

// Caller is who is at the other end of a connection, as a certificate that was verified says.
type Caller struct {
	// Cert is the caller's own certificate, Chain the verified way from it to the CA.
	Cert  *x509.Certificate
	Chain []*x509.Certificate
	// Cluster and Peer are set when the certificate is a peer's, and empty for clients. The
	// listeners of a Store refuse peers of other clusters.
	Cluster, Peer string
}

// FromContext returns the caller of a gRPC call. There is none if the connection has no TLS, the
// caller presented no certificate, or it has ended since.
func FromContext(ctx context.Context) (*Caller, bool) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil, false
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok {
		return nil, false
	}
	return FromState(&info.State)
}

// FromState is FromContext for what is not gRPC: http.Request.TLS, which may be nil.
func FromState(cs *tls.ConnectionState) (*Caller, bool) {
	if cs == nil || len(cs.VerifiedChains) == 0 || len(cs.VerifiedChains[0]) == 0 {
		return nil, false
	}
	c := &Caller{Cert: cs.VerifiedChains[0][0], Chain: cs.VerifiedChains[0]}
	if time.Now().After(c.Cert.NotAfter) {
		return nil, false
	}
	c.Cluster, c.Peer, _ = PeerID(c.Cert)
	return c, true
}
