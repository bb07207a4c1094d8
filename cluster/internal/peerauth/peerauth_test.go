package peerauth

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/cluster/call"
	"github.com/holdfast-metal/holdfast/cluster/peertls"
)

// Without TLS every process on loopback is a peer. With TLS a caller without a certificate is none:
// it calls no method between peers, and its header that another peer has forwarded the call is
// dropped.
func TestCallerWithoutCertificate(t *testing.T) {
	const internal = InternalPrefix + "v1.PeerService/Leave"
	for _, tt := range []struct {
		name string
		tls  *peertls.Store
		peer bool
	}{{"without TLS", nil, true}, {"with TLS", &peertls.Store{}, false}} {
		g := New(Config{TLS: tt.tls, Now: time.Now})
		ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs(call.HeaderForwardedBy, "p2", "a", "1"))
		if tt.tls == nil {
			if err := g.CheckPeer(ctx, internal); err != nil {
				t.Errorf("%s: %s: got %v", tt.name, internal, err)
			}
		}
		if err := g.CheckSelf(ctx, "p2"); (err == nil) != tt.peer || err != nil &&
			status.Code(err) != codes.PermissionDenied {
			t.Errorf("%s: act for p2: got %v, want allowed: %t", tt.name, err, tt.peer)
		}
		if err := g.CheckPeer(ctx, "/holdfast.v1.RunService/StartRun"); err != nil {
			t.Errorf("%s: public method: got %v", tt.name, err)
		}
		id, ok := g.ForwardedBy(ctx)
		if ok != tt.peer || ok && id != "p2" {
			t.Errorf("%s: got %q (%t) as the peer that forwarded, want p2: %t", tt.name, id, ok, tt.peer)
		}
		in, hopped := g.Trusted(ctx)
		md, _ := metadata.FromIncomingContext(in)
		if got := len(md.Get(call.HeaderForwardedBy)) == 1; hopped != tt.peer || got != tt.peer || len(md.Get("a")) != 1 {
			t.Errorf("%s: got metadata %v (%t), want the header kept: %t", tt.name, md, hopped, tt.peer)
		}
	}
}
