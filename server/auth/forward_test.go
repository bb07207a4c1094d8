package auth

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/holdfast-metal/holdfast/cluster/call"
	"github.com/holdfast-metal/holdfast/cluster/peertls"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// TestForward checks that the next peer gets the caller's identity, and that the token is
// not forwarded.
func TestForward(t *testing.T) {
	alice := &Caller{
		Identity: &holdfastv1.Identity{Principal: "user:alice", Role: holdfastv1.Role_OPERATOR, Pools: []string{"a"},
			Method: MethodCertificate},
		Source: "10.0.0.1", Peer: "n2", Method: "POST /x",
	}
	md := metadata.Pairs("authorization", "Bearer secret", headerIdentity, "forged", "holdfast-consistency", "stale")
	Forward(NewContext(t.Context(), alice), md)
	if len(md["authorization"]) != 0 || len(md[headerIdentity]) != 1 || len(md["holdfast-consistency"]) != 1 {
		t.Fatalf("got %v", md)
	}
	g := newGate(t, &fakeRecords{}, Config{Member: func(_ context.Context, c *peertls.Caller) error {
		if c.Peer == "n9" {
			return errors.New("no member")
		}
		return nil
	}})
	from := func(cert *peertls.Caller) (*Caller, error) {
		return g.identify(context.Background(), &presented{source: "10.0.0.2", cert: cert, forwarded: md[headerIdentity],
			method: "m"})
	}
	got, err := from(&peertls.Caller{Cluster: "c1", Peer: "n2"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(alice, got, protocmp.Transform(), cmpopts.IgnoreUnexported(Caller{})); diff != "" {
		t.Error(diff)
	}
	if _, err := from(&peertls.Caller{Cluster: "c1", Peer: "n3"}); reasonOf(err) != ReasonBadCredentials {
		t.Errorf("identity of a call to another peer: got %v", err)
	}
	if _, err := from(&peertls.Caller{Cluster: "c1", Peer: "n9"}); reasonOf(err) != ReasonNotMember {
		t.Errorf("identity from a peer that is no member: got %v", err)
	}
	if _, err := from(nil); reasonOf(err) != ReasonNoCredentials {
		t.Errorf("identity from a caller without a certificate: got %v", err)
	}

	// Without a caller no identity is forwarded.
	md = metadata.Pairs(headerIdentity, "forged")
	Forward(t.Context(), md)
	if len(md) != 0 {
		t.Errorf("got %v", md)
	}
}

// TestStripped checks that metadata of peers is dropped if another caller sends it.
func TestStripped(t *testing.T) {
	md := metadata.Pairs(headerIdentity, "x", call.HeaderForwardedBy, "n2", "a", "1")
	got, _ := metadata.FromIncomingContext(stripped(metadata.NewIncomingContext(t.Context(), md), true))
	if diff := cmp.Diff(metadata.Pairs("a", "1"), got); diff != "" {
		t.Error(diff)
	}
	got, _ = metadata.FromIncomingContext(stripped(metadata.NewIncomingContext(t.Context(),
		metadata.Pairs(call.HeaderForwardedBy, "n2", "a", "1")), false))
	if diff := cmp.Diff(metadata.Pairs("a", "1"), got); diff != "" {
		t.Errorf("without an identity: %s", diff)
	}
}

func FuzzForwarded(f *testing.F) {
	good, err := proto.Marshal(&internalv1.ForwardedCaller{Identity: &holdfastv1.Identity{Principal: "user:a",
		Role: holdfastv1.Role_ADMIN}, Source: "10.0.0.1"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(good))
	f.Add("")
	f.Fuzz(func(t *testing.T, raw string) {
		c, err := forwarded([]string{raw}, "")
		if (c == nil) == (err == nil) {
			t.Fatalf("got %v and %v", c, err)
		}
		if c == nil {
			return
		}
		if _, known := holdfastv1.Role_Value_name[int32(c.Identity.GetRole())]; !known {
			t.Fatalf("got role %d, want a refusal", c.Identity.GetRole())
		}
		md := metadata.MD{}
		Forward(NewContext(context.Background(), c), md)
		again, err := forwarded(md[headerIdentity], "")
		if err != nil || !proto.Equal(again.Identity, c.Identity) {
			t.Fatalf("%v: got %v, %v", c, again, err)
		}
	})
}
