package auth

import (
	"context"
	"slices"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// The metadata of calls that a peer forwards. From anybody else it is dropped.
const (
	headerIdentity = "holdfast-identity-bin"
	headerHop      = "holdfast-forwarded-by" // cluster's
	headerToken    = "authorization"
)

// Forward is cluster.Config.ForwardMetadata: it tells the next peer who the caller is. The
// caller's token stays here.
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
	b, err := proto.Marshal(&internalv1.ForwardedCaller{Identity: c.Identity, Source: c.Source, Peer: c.Peer, Method: c.Method})
	if err == nil {
		md.Set(headerIdentity, string(b)) // else the next peer takes this one for the caller, and refuses
	}
}

// forwarded reads who a peer forwards a call for.
func forwarded(values []string) (*Caller, *Error) {
	var f internalv1.ForwardedCaller
	if len(values) != 1 || proto.Unmarshal([]byte(values[0]), &f) != nil || f.GetIdentity() == nil {
		return nil, unauthenticated(ReasonBadCredentials, "the identity that a peer has forwarded cannot be read: do the peers run the same version?")
	}
	id := f.GetIdentity()
	if _, known := holdfastv1.Role_Value_name[int32(id.GetRole())]; !known {
		id.Role = holdfastv1.Role_ROLE_UNSPECIFIED // of a newer version: this one does not know what it may
	}
	return &Caller{Identity: id, Source: f.GetSource(), Peer: f.GetPeer(), Method: f.GetMethod()}, nil
}

// stripped returns a context without the metadata that only peers may send.
func stripped(ctx context.Context, md metadata.MD) context.Context {
	if len(md[headerIdentity]) == 0 && len(md[headerHop]) == 0 {
		return ctx
	}
	clean := metadata.MD{}
	for k, v := range md {
		if k != headerIdentity && k != headerHop {
			clean[k] = slices.Clone(v)
		}
	}
	return metadata.NewIncomingContext(ctx, clean)
}
