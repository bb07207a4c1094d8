package security

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/cluster/clustertest"
	"github.com/holdfast-metal/holdfast/cluster/peertls/issue"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// forge creates a token with the certificate of a peer, as an admin whose call has arrived at
// another peer.
func (g *guarded) forge(i int, pair issue.Pair, arrivedAt string) error {
	id, err := proto.Marshal(&internalv1.ForwardedCaller{
		Identity: &holdfastv1.Identity{Principal: "user:innocent", Role: holdfastv1.Role_ADMIN, Method: "certificate"},
		Source:   "10.0.0.1", Peer: arrivedAt, Method: "AccessService/CreateToken"})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(g.t.Context(), 20*time.Second)
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(ctx, "holdfast-identity-bin", string(id))
	conn, err := grpc.NewClient(g.addrs[i], grpc.WithTransportCredentials(g.ClientCredentials(pair)),
		grpc.WithDisableRetry())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	_, err = holdfastv1.NewAccessServiceClient(conn).CreateToken(ctx, &holdfastv1.CreateTokenRequest{Name: "backdoor",
		Role: holdfastv1.Role_ADMIN})
	return err
}

// A forwarded identity counts only from a member, and only for calls that have arrived there.
func TestForgedIdentities(t *testing.T) {
	t.Parallel()
	g := guard(t)
	g.wantGood("the admin", g.client(g.CA), "")
	peer := func(id string) issue.Pair {
		pair, err := g.CA.Peer(clustertest.ClusterName, id, nil, time.Now().Add(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		return pair
	}
	leader, lost := g.Leader(), g.Followers(g.Leader())[0]
	member := g.Followers(g.Leader())[1]
	for i := range g.Peers {
		for _, tt := range []struct {
			name      string
			pair      issue.Pair
			arrivedAt string
			want      codes.Code
		}{
			{"a peer that never joined, as a member", peer("n9"), member.ID, codes.Unauthenticated},
			{"a peer that never joined, as itself", peer("n9"), "n9", codes.Unauthenticated},
			{"a member as another one", g.Pair(member), leader.ID, codes.Unauthenticated},
			{"a member as nobody", g.Pair(member), "", codes.Unauthenticated},
		} {
			if got := g.forge(i, tt.pair, tt.arrivedAt); status.Code(got) != tt.want {
				t.Errorf("%s at %s: got %v, want %v", tt.name, g.Peers[i].ID, got, tt.want)
			}
		}
	}
	if err := g.forge(leader.Number(), g.Pair(member), member.ID); err != nil {
		t.Errorf("a member as itself: got %v", err)
	}
	g.kill(lost.Number())
	ctx, cancel := context.WithTimeout(t.Context(), settled)
	defer cancel()
	if err := leader.Node.RemovePeer(ctx, lost.ID, true); err != nil {
		t.Fatal(err)
	}
	for _, pair := range []issue.Pair{g.Pair(lost), peer(lost.ID)} {
		if err := g.forge(leader.Number(), pair, lost.ID); status.Code(err) != codes.Unauthenticated {
			t.Errorf("a removed peer: got %v, want Unauthenticated", err)
		}
	}
}
