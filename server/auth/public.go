package auth

import (
	"context"

	"google.golang.org/grpc/metadata"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// headerSource is the metadata in which a peer forwards the address of a public call. From other
// callers it is ignored.
const headerSource = "holdfast-source"

type addressKey struct{}

// withAddress returns a context for a public call from an address.
func withAddress(ctx context.Context, address string) context.Context {
	return context.WithValue(ctx, addressKey{}, address)
}

// AddressFrom returns the address that a public call came from, without the port; empty if it is
// unknown.
func AddressFrom(ctx context.Context) string {
	a, _ := ctx.Value(addressKey{}).(string)
	return a
}

// forwardedAddress returns the context of a public call that a peer has forwarded, with the address
// that the peer names.
func forwardedAddress(ctx context.Context, md metadata.MD) context.Context {
	if v := md[headerSource]; len(v) == 1 {
		return withAddress(ctx, v[0])
	}
	return ctx
}

// Deny records that a public call was refused: its method, and the resource that it was about.
// Calls that carry a token or a certificate are recorded by the gate itself.
func (g *Gate) Deny(ctx context.Context, method, resource string, err *Error) {
	g.metrics.refused.WithLabelValues(err.Reason).Inc()
	c := &Caller{Identity: &holdfastv1.Identity{Principal: unknownPrincipal}, Source: AddressFrom(ctx), Peer: g.cfg.PeerID, Method: method}
	g.denials.refused(ctx, c, resource, "", err)
}
