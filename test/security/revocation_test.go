package security

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/cluster/clustertest"
	"github.com/holdfast-metal/holdfast/cluster/freeport"
	"github.com/holdfast-metal/holdfast/cluster/peertls"
	"github.com/holdfast-metal/holdfast/cluster/peertls/issue"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/server"
	"github.com/holdfast-metal/holdfast/server/auth"
)

// settled bounds the wait for a cluster that was down completely.
const settled = time.Minute

// guarded is a cluster of three peers on disk in this process, each with the real server and
// authorization.
type guarded struct {
	*clustertest.Cluster
	t     *testing.T
	addrs []string
	apis  []*grpc.Server
}

func guard(t *testing.T) *guarded {
	t.Helper()
	ports, err := freeport.Claim(t.Context(), 3)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ports.Release() })
	g := &guarded{t: t, apis: make([]*grpc.Server, 3)}
	for range 3 {
		g.addrs = append(g.addrs, ports.Address("127.0.0.1"))
	}
	t.Cleanup(func() {
		for _, s := range g.apis {
			s.Stop()
		}
	})
	g.Cluster = clustertest.Start(t, clustertest.Options{
		TLS: true, OnDisk: true, Stopped: func(int) bool { return true },
		Configure: func(i int, cfg *cluster.Config) { cfg.AdvertiseGRPC, cfg.ForwardMetadata = g.addrs[i], auth.Forward },
		Register:  g.serve,
	})
	g.startAll()
	return g
}

// serve serves the API of a peer, as package serve does.
func (g *guarded) serve(i int, p *clustertest.Peer) {
	g.t.Helper()
	store, err := g.Store(p)
	if err != nil {
		g.t.Fatal(err)
	}
	gate, forwarder, err := auth.ForNode(auth.Config{PeerID: p.ID, Cluster: clustertest.ClusterName, RatePerSecond: -1,
		Member: p.Node.Member},
		p.Node, p.FSM)
	if err != nil {
		g.t.Fatal(err)
	}
	srv := server.New(server.Config{Gate: gate, Forwarder: p.Node}, p.Node, p.FSM, providers.SetOf(nil))
	s := grpc.NewServer(append(srv.GRPCOptions(), grpc.Creds(credentials.NewTLS(store.API())))...)
	srv.Register(s)
	forwarder.Register(s)
	p.Node.RegisterPeerService(s)
	l, err := net.Listen("tcp", g.addrs[i])
	if err != nil {
		g.t.Fatal(err)
	}
	g.apis[i] = s
	go func() { _ = s.Serve(peertls.Listen(l)) }() // ends with s.Stop
}

// kill ends a peer like a crash.
func (g *guarded) kill(i int) {
	g.Kill(g.Peers[i])
	g.apis[i].Stop()
}

func (g *guarded) startAll() {
	for _, p := range g.Peers {
		if !p.Up() {
			g.Restart(p)
		}
	}
}

// whoAmI calls WhoAmI at a peer, over a new connection.
func (g *guarded) whoAmI(i int, creds credentials.TransportCredentials, token string) (*holdfastv1.Identity, error) {
	ctx, cancel := context.WithTimeout(g.t.Context(), 5*time.Second)
	defer cancel()
	if token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	}
	conn, err := grpc.NewClient(g.addrs[i], grpc.WithTransportCredentials(creds), grpc.WithDisableRetry())
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	return holdfastv1.NewAccessServiceClient(conn).WhoAmI(ctx, &holdfastv1.WhoAmIRequest{})
}

// wantGood waits until all peers accept the credentials.
func (g *guarded) wantGood(name string, creds credentials.TransportCredentials, token string) {
	g.t.Helper()
	for i := range g.Peers {
		clustertest.Eventually(g.t, settled, name+" at "+g.Peers[i].ID, func() error {
			_, err := g.whoAmI(i, creds, token)
			return err
		})
	}
}

// wantRevoked checks that every running peer refuses a token from its first answer on. Errors
// without an answer are retried.
func (g *guarded) wantRevoked(when, token string) {
	g.t.Helper()
	for i, p := range g.Peers {
		if !p.Up() {
			continue
		}
		clustertest.Eventually(g.t, settled, when+": an answer of "+p.ID, func() error {
			id, err := g.whoAmI(i, g.ClientCredentials(issue.Pair{}), token)
			switch status.Code(err) {
			case codes.OK:
				g.t.Fatalf("%s: %s accepts the revoked token as %v", when, p.ID, id)
			case codes.Unauthenticated:
				return nil
			}
			return fmt.Errorf("not yet: %w", err)
		})
	}
}

func (g *guarded) client(ca *issue.CA) credentials.TransportCredentials {
	g.t.Helper()
	pair, err := ca.Client("root", []string{"admin"}, time.Now().Add(time.Hour))
	if err != nil {
		g.t.Fatal(err)
	}
	return g.ClientCredentials(pair)
}

// token creates a token.
func (g *guarded) token(admin credentials.TransportCredentials, name string) *holdfastv1.CreateTokenResponse {
	g.t.Helper()
	var made *holdfastv1.CreateTokenResponse
	g.call(admin, func(ctx context.Context, a holdfastv1.AccessServiceClient) (err error) {
		made, err = a.CreateToken(ctx, &holdfastv1.CreateTokenRequest{Name: name, Role: holdfastv1.Role_VIEWER})
		return err
	})
	return made
}

func (g *guarded) call(
	admin credentials.TransportCredentials, do func(context.Context, holdfastv1.AccessServiceClient) error,
) {
	g.t.Helper()
	conn, err := grpc.NewClient(g.addrs[0], grpc.WithTransportCredentials(admin))
	if err != nil {
		g.t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(g.t.Context(), settled)
	defer cancel()
	if err := do(ctx, holdfastv1.NewAccessServiceClient(conn)); err != nil {
		g.t.Fatal(err)
	}
}

// TestRevokedForGood checks that all peers refuse a revoked token at once, after a failover, and
// after all were killed and restarted from disk, and accept another one throughout.
func TestRevokedForGood(t *testing.T) {
	g := guard(t)
	admin, anonymous := g.client(g.CA), g.ClientCredentials(issue.Pair{})
	g.wantGood("the admin", admin, "")
	good, bad := g.token(admin, "good"), g.token(admin, "bad")
	g.wantGood("the good token", anonymous, good.GetSecret())
	g.wantGood("the bad token", anonymous, bad.GetSecret())
	g.call(admin, func(ctx context.Context, a holdfastv1.AccessServiceClient) error {
		_, err := a.RevokeToken(ctx, &holdfastv1.RevokeTokenRequest{TokenId: bad.GetToken().GetTokenId()})
		return err
	})
	g.wantRevoked("right after the revocation", bad.GetSecret())

	leader := g.Leader()
	for i, p := range g.Peers {
		if p == leader {
			g.kill(i)
		}
	}
	g.wantRevoked("after a failover", bad.GetSecret())
	g.startAll()
	g.wantGood("the good token after a failover", anonymous, good.GetSecret())
	g.wantRevoked("with the old leader back", bad.GetSecret())

	for i := range g.Peers {
		g.kill(i)
	}
	g.startAll()
	g.wantRevoked("after all were killed", bad.GetSecret())
	g.wantGood("the good token after all were killed", anonymous, good.GetSecret())
	g.wantRevoked("at the end", bad.GetSecret())
}

// TestRemovedCAIsRefused checks that an admin's certificate of a CA that the peers no longer trust
// is refused, also after all peers were killed and restarted.
func TestRemovedCAIsRefused(t *testing.T) {
	g := guard(t)
	old := g.client(g.CA)
	g.wantGood("the admin of the old CA", old, "")
	next := g.NewCA(clustertest.ClusterName)
	both := append(append([]byte(nil), g.CA.Pair.Cert...), next.Pair.Cert...)
	for _, p := range g.Peers {
		g.Trust(p, both)
	}
	admin := g.client(next)
	g.wantGood("the admin of the new CA", admin, "")
	for _, p := range g.Peers {
		g.Certify(p, next, clustertest.ClusterName, both)
	}
	for _, p := range g.Peers {
		g.Trust(p, next.Pair.Cert)
	}
	refused := func(when string) {
		t.Helper()
		g.wantGood("the admin of the new CA "+when, admin, "")
		for i, p := range g.Peers {
			clustertest.Eventually(t, settled, when+": the old CA to be refused by "+p.ID, func() error {
				if id, err := g.whoAmI(i, old, ""); err == nil {
					return fmt.Errorf("accepted as %v", id)
				}
				return nil
			})
		}
	}
	refused("while the peers run")
	for i := range g.Peers {
		g.kill(i)
	}
	g.startAll()
	for i, p := range g.Peers { // from the start
		if id, err := g.whoAmI(i, old, ""); err == nil {
			t.Errorf("%s accepts the old CA's admin again, as %v", p.ID, id)
		}
	}
	refused("after all were killed")
}
