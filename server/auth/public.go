package auth

import (
	"context"

	"google.golang.org/grpc/metadata"
)

// headerSource is the metadata in which a peer forwards the source address of a public
// call. It is ignored if the caller is not a peer.
const headerSource = "holdfast-source"

type addressKey struct{}

// withAddress returns a context for a public call from an address.
func withAddress(ctx context.Context, address string) context.Context {
	return context.WithValue(ctx, addressKey{}, address)
}

// AddressFrom returns the source address of a public call, without the port. It is empty
// if unknown.
func AddressFrom(ctx context.Context) string {
	a, _ := ctx.Value(addressKey{}).(string)
	return a
}

// forwardedAddress returns a context with the source address of a public call that a peer
// forwards.
func forwardedAddress(ctx context.Context) context.Context {
	if v := metadata.ValueFromIncomingContext(ctx, headerSource); len(v) == 1 {
		return withAddress(ctx, v[0])
	}
	return ctx
}

// Deny records a refused public call: its method, and the resource that it named. The
// gate itself records refused calls with a token or a certificate.
func (g *Gate) Deny(ctx context.Context, method, resource string, err *Error) {
	g.metrics.refused.WithLabelValues(err.Reason).Inc()
	g.denials.refused(ctx, unknownCaller(AddressFrom(ctx), g.cfg.PeerID, method), resource, "", err)
}
