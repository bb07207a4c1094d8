// Package peerauth checks that a caller is a peer of this cluster, and the one for which it acts.
// It must not know what the calls do.
package peerauth

import (
	"context"
	"crypto/x509"
	"errors"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/cluster/call"
	"github.com/holdfast-metal/holdfast/cluster/peertls"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Config holds how peers prove who they are.
type Config struct {
	// TLS holds the certificates of this peer. If it is nil, every process on loopback counts as a
	// peer.
	TLS *peertls.Store
	Now func() time.Time // the cluster's time
	// Member returns an error if a peer with a certificate is not a member now, and Denied if its
	// certificate is denied.
	Member func(ctx context.Context, id string, cert *x509.Certificate) error
	Denied func(id string, cert *x509.Certificate) error
	// LogRefusal logs that a caller was refused.
	LogRefusal func(method, id string, err error)
}

// Guard checks callers.
type Guard struct{ cfg Config }

// New returns a guard.
func New(cfg Config) *Guard { return &Guard{cfg: cfg} }

// Member returns an error if the caller of a connection is not a peer that is a member of the
// cluster now. Without TLS every process on loopback counts as one.
func (g *Guard) Member(ctx context.Context, c *peertls.Caller) error {
	switch {
	case g.cfg.TLS == nil:
		return nil
	case c == nil || c.Peer == "" || c.Cluster != g.cfg.TLS.Cluster():
		return errors.New("the caller has no certificate of a peer of this cluster")
	}
	return g.cfg.Member(ctx, c.Peer, c.Cert)
}

// InternalPrefix begins the full names of the methods that only peers may call
// (docs/security.md). Without TLS, any process on loopback counts as a peer.
const InternalPrefix = "/holdfast.internal."

// callingPeer returns the id of the peer at the other end. ok is false if it is not a member
// of this cluster.
func (g *Guard) callingPeer(ctx context.Context) (id string, ok bool) {
	if g.cfg.TLS == nil {
		return "", true
	}
	c, ok := peertls.FromContext(ctx, g.cfg.Now())
	if !ok || g.Member(ctx, c) != nil {
		return "", false
	}
	return c.Peer, true
}

// beforeJoining are the methods that a peer may call before it is a member. They change nothing.
var beforeJoining = []string{
	internalv1.PeerService_Stats_FullMethodName, // to find out why it is no member
	internalv1.PeerService_Vouch_FullMethodName, // to find out who is
}

// CheckPeer returns an error if a caller that is not a member calls a method for peers.
func (g *Guard) CheckPeer(ctx context.Context, method string) error {
	if !strings.HasPrefix(method, InternalPrefix) || g.cfg.TLS == nil {
		return nil
	}
	c, ok := peertls.FromContext(ctx, g.cfg.Now())
	if !ok || c.Peer == "" || c.Cluster != g.cfg.TLS.Cluster() {
		return status.Errorf(codes.PermissionDenied,
			"%s is only for peers of cluster %s: the caller has no peer certificate",
			method, g.cfg.TLS.Cluster())
	}
	var err error
	if slices.Contains(beforeJoining, method) {
		err = g.cfg.Denied(c.Peer, c.Cert)
	} else {
		err = g.Member(ctx, c)
	}
	if err != nil {
		g.cfg.LogRefusal(method, c.Peer, err)
		return status.Errorf(codes.PermissionDenied, "%s refused: %s", method, err)
	}
	return nil
}

// CheckSelf returns an error if a peer acts for another peer.
func (g *Guard) CheckSelf(ctx context.Context, id string) error {
	if g.cfg.TLS == nil {
		return nil
	}
	if from, ok := g.callingPeer(ctx); !ok || from != id {
		return status.Errorf(codes.PermissionDenied, "peer %q cannot act for peer %q", from, id)
	}
	return nil
}

// ForwardedBy returns the peer that has forwarded a call. The header is trusted only if it
// names the calling peer itself, which with TLS is the peer in the certificate. Other
// metadata about the original caller may be trusted only if ok is true.
func (g *Guard) ForwardedBy(ctx context.Context) (id string, ok bool) {
	by := metadata.ValueFromIncomingContext(ctx, call.HeaderForwardedBy)
	if len(by) != 1 {
		return "", false
	}
	from, ok := g.callingPeer(ctx)
	if !ok || g.cfg.TLS != nil && from != by[0] {
		return "", false
	}
	return by[0], true
}

// Trusted reports whether another peer has forwarded a call, and returns its context. It
// drops the forwarding header unless an authenticated peer has sent it.
func (g *Guard) Trusted(ctx context.Context) (_ context.Context, hopped bool) {
	if len(metadata.ValueFromIncomingContext(ctx, call.HeaderForwardedBy)) == 0 {
		return ctx, false
	}
	if _, ok := g.ForwardedBy(ctx); ok {
		return ctx, true
	}
	md, _ := metadata.FromIncomingContext(ctx) // a copy
	md.Delete(call.HeaderForwardedBy)
	return metadata.NewIncomingContext(ctx, md), false
}
