package cluster

import (
	"context"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/cluster/peertls"
)

// Access to methods that only peers may call (docs/security.md). Without TLS, any process
// on loopback counts as a peer.

// internalPrefix is the prefix of the methods between peers.
const internalPrefix = "/holdfast.internal."

// callingPeer returns the id of the peer at the other end. ok is false if it is not a peer
// of this cluster.
func (n *Node) callingPeer(ctx context.Context) (id string, ok bool) {
	if n.cfg.TLS == nil {
		return "", true
	}
	c, ok := peertls.FromContext(ctx)
	if !ok || c.Peer == "" || c.Cluster != n.cfg.TLS.Cluster() {
		return "", false
	}
	return c.Peer, true
}

// checkPeer returns an error if a caller that is not a peer calls a method for peers.
func (n *Node) checkPeer(ctx context.Context, method string) error {
	if !strings.HasPrefix(method, internalPrefix) {
		return nil
	}
	if _, ok := n.callingPeer(ctx); ok {
		return nil
	}
	return status.Errorf(codes.PermissionDenied,
		"%s is only for peers of cluster %s: the caller has no peer certificate",
		method, n.cfg.TLS.Cluster())
}

// checkSelf returns an error if a peer acts for another peer.
func (n *Node) checkSelf(ctx context.Context, id string) error {
	if n.cfg.TLS == nil {
		return nil
	}
	if from, ok := n.callingPeer(ctx); !ok || from != id {
		return status.Errorf(codes.PermissionDenied, "peer %q cannot act for peer %q", from, id)
	}
	return nil
}

// ForwardedBy returns the peer that has forwarded a call. The header is trusted only if it
// names the calling peer itself, which with TLS is the peer in the certificate. Other
// metadata about the original caller may be trusted only if ok is true.
func (n *Node) ForwardedBy(ctx context.Context) (id string, ok bool) {
	md, _ := metadata.FromIncomingContext(ctx)
	by := md.Get(headerHop)
	if len(by) != 1 {
		return "", false
	}
	from, ok := n.callingPeer(ctx)
	if !ok || n.cfg.TLS != nil && from != by[0] {
		return "", false
	}
	return by[0], true
}

// trustedMetadata returns the metadata of a call and its context. It drops the forwarding
// header unless an authenticated peer has sent it.
func (n *Node) trustedMetadata(ctx context.Context) (context.Context, metadata.MD) {
	md, _ := metadata.FromIncomingContext(ctx)
	if len(md.Get(headerHop)) == 0 {
		return ctx, md
	}
	if _, ok := n.ForwardedBy(ctx); ok {
		return ctx, md
	}
	md = md.Copy()
	md.Delete(headerHop)
	return metadata.NewIncomingContext(ctx, md), md
}
