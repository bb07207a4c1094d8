package auth

import (
	"context"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/cluster/call"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// The metadata of calls that a peer forwards. It is dropped if the caller is not a peer.
const (
	headerIdentity = "holdfast-identity-bin"
	headerToken    = "authorization"
)

// Forward implements cluster.Config.ForwardMetadata. It adds the caller's identity to the
// metadata for the next peer. The caller's token is not forwarded.
func Forward(ctx context.Context, md metadata.MD) {
	md.Delete(headerToken)
	md.Delete(headerIdentity)
	md.Delete(headerSource)
	c := CallerFrom(ctx)
	if c == nil {
		if a := AddressFrom(ctx); a != "" {
			md.Set(headerSource, a)
		}
		return
	}
	b, err := proto.Marshal(&internalv1.ForwardedCaller{
		Identity: c.Identity, Source: c.Source, Peer: c.Peer, Method: c.Method, Session: c.session,
	})
	if err == nil {
		md.Set(headerIdentity, string(b)) // without it this peer is the caller, and the next one refuses it
	}
}

// forwarded returns the original caller of a call that a peer forwards. from is the peer in the
// certificate of the connection, which must be the one where the call arrived; empty without TLS.
func forwarded(values []string, from string) (*Caller, *Error) {
	var f internalv1.ForwardedCaller
	if len(values) != 1 || proto.Unmarshal([]byte(values[0]), &f) != nil || f.GetIdentity() == nil {
		return nil, unauthenticated(ReasonBadCredentials,
			"cannot parse the identity forwarded by a peer: do all peers run the same version?")
	}
	if from != "" && f.GetPeer() != from {
		return nil, unauthenticated(ReasonBadCredentials,
			"peer %s forwards a call that arrived at peer %q: a peer forwards only its own", from, clip(f.GetPeer()))
	}
	id := f.GetIdentity()
	if _, known := holdfastv1.Role_Value_name[int32(id.GetRole())]; !known {
		id.Role = holdfastv1.Role_ROLE_UNSPECIFIED // a role of a newer version has no rights here
	}
	return &Caller{Identity: id, Source: f.GetSource(), Peer: f.GetPeer(), Method: f.GetMethod(),
		session: f.GetSession()}, nil
}

// stripped returns a context without the metadata that only peers may send. Identity is whether
// there is a forwarded identity.
func stripped(ctx context.Context, identity bool) context.Context {
	if !identity && len(metadata.ValueFromIncomingContext(ctx, call.HeaderForwardedBy)) == 0 {
		return ctx
	}
	md, _ := metadata.FromIncomingContext(ctx)
	md.Delete(headerIdentity)
	md.Delete(call.HeaderForwardedBy)
	return metadata.NewIncomingContext(ctx, md)
}
