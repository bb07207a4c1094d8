package cluster

import (
	"context"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/cluster/peertls"
)

// Who may do what only peers may (docs/security.md). Without TLS anybody on loopback is taken for a
// peer.

// internalPrefix begins the methods that peers call.
const internalPrefix = "/holdfast.internal."

// callingPeer returns the id of the peer at the other end. ok is false if it is no peer of this
// cluster.
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

// checkPeer refuses calls of methods that are for peers only.
func (n *Node) checkPeer(ctx context.Context, method string) error {
	if !strings.HasPrefix(method, internalPrefix) {
		return nil
	}
	if _, ok := n.callingPeer(ctx); ok {
		return nil
	}
	return status.Errorf(codes.PermissionDenied, "%s is for the peers of cluster %s only: the caller has no peer certificate", method, n.cfg.TLS.Cluster())
}

// checkSelf refuses a peer that speaks for another one.
func (n *Node) checkSelf(ctx context.Context, id string) error {
	if n.cfg.TLS == nil {
		return nil
	}
	if from, ok := n.callingPeer(ctx); !ok || from != id {
		return status.Errorf(codes.PermissionDenied, "peer %q cannot speak for peer %q", from, id)
	}
	return nil
}

// ForwardedBy returns the peer that has forwarded a call. The header that says so is believed from
// that peer itself only: with TLS, its certificate names it. Other metadata in which a peer speaks
// for somebody is to be believed just then.
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

// believed returns the metadata of a call, and its context, without a word of forwarding from
// somebody who is no peer.
func (n *Node) believed(ctx context.Context) (context.Context, metadata.MD) {
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
