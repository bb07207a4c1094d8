package server

import (
	"context"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	grpcpeer "google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/cluster/peertls/issue"
	"github.com/holdfast-metal/holdfast/internal/secrets"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/internal/nodetest"
)

func trail(p *secured) []*holdfastv1.AuditEvent {
	es, err := p.Peer.View().AuditAfter(0, 1000)
	if err != nil {
		p.t.Fatal(err)
	}
	return es
}

// TestWhoDidIt checks that a change is recorded with its caller, and that a change
// refused for lack of a role is recorded before the caller gets the answer.
func TestWhoDidIt(t *testing.T) {
	p := secure(t, auth.Config{})
	viewer := p.connect(t, kind{token: &holdfastv1.Token{Name: "v", Role: holdfastv1.Role_VIEWER}})
	alice := p.connect(t, kind{cert: func() issue.Pair {
		return must[issue.Pair](t)(p.ca.Client("alice", []string{"operator@a"}, time.Now().Add(time.Hour)))
	}})
	phase := func(c *caller, machine string) error {
		_, err := holdfastv1.NewMachineServiceClient(c.conn).SetMachinePhase(c.ctx(t),
			&holdfastv1.SetMachinePhaseRequest{MachineId: machine, Phase: holdfastv1.MachineStatus_MAINTENANCE})
		return err
	}
	for _, tt := range []struct {
		c         *caller
		machine   string
		code      codes.Code
		principal string
		outcome   string
	}{
		{viewer, "m-b", codes.PermissionDenied, "token:v", "PERMISSION_DENIED"},
		{alice, "m-b", codes.NotFound, "user:alice", "PERMISSION_DENIED"}, // of another pool
		{alice, "m-a", codes.FailedPrecondition, "user:alice", "FAILED_PRECONDITION"},
	} {
		before := len(trail(p))
		if err := phase(tt.c, tt.machine); status.Code(err) != tt.code {
			t.Fatalf("got %v, want %v", err, tt.code)
		}
		after := trail(p)
		if len(after) != before+1 {
			t.Fatalf("%d events for one call: %v", len(after)-before, after[before:])
		}
		e := after[before]
		if e.GetPrincipal() != tt.principal || e.GetOutcome() != tt.outcome || e.GetResource() != "machines/"+tt.machine ||
			e.GetMethod() != "holdfast.v1.MachineService/SetMachinePhase" ||
			e.GetSource() != "127.0.0.1" || e.GetPeer() != "p1" {
			t.Errorf("got %v", e)
		}
	}
	// Failed authentications are recorded once a second, with a count.
	nobody := p.connect(t, kind{})
	for range 5 {
		_ = phase(nobody, "m-a")
	}
	eventually(t, "the failures are on record", func() bool {
		var n uint32
		for _, e := range trail(p) {
			if e.GetPrincipal() == "unauthenticated" && e.GetReason() == auth.ReasonNoCredentials {
				n += e.GetCount()
			}
		}
		return n == 5
	})
}

// TestForgedForwarding checks that forwarding metadata is ignored unless a peer sends it.
func TestForgedForwarding(t *testing.T) {
	p := secure(t, auth.Config{})
	forged := must[[]byte](t)(
		proto.Marshal(&internalv1.ForwardedCaller{Identity: &holdfastv1.Identity{Principal: "user:root",
			Role: holdfastv1.Role_ADMIN, Method: auth.MethodCertificate}, Peer: "p2"}))
	hour := time.Now().Add(time.Hour)
	who := func(k kind) (*holdfastv1.Identity, error) {
		c := p.connect(t, k)
		ctx := metadata.AppendToOutgoingContext(c.ctx(t), "holdfast-identity-bin", string(forged), "holdfast-forwarded-by",
			"p2")
		return holdfastv1.NewAccessServiceClient(c.conn).WhoAmI(ctx, &holdfastv1.WhoAmIRequest{})
	}
	if id, err := who(kind{}); status.Code(err) != codes.Unauthenticated {
		t.Errorf("a caller without credentials: got %v, %v", id, err)
	}
	for _, k := range []kind{
		{token: &holdfastv1.Token{Name: "v", Role: holdfastv1.Role_VIEWER}},
		{cert: func() issue.Pair { return must[issue.Pair](t)(p.ca.Client("v", []string{"viewer"}, hour)) }},
		{token: &holdfastv1.Token{Name: "agent", Role: holdfastv1.Role_AGENT, MachineId: "m-a"}},
	} {
		if id, err := who(k); err != nil || id.GetPrincipal() == "user:root" || id.GetRole() == holdfastv1.Role_ADMIN {
			t.Errorf("became %v, %v", id, err)
		}
	}
	peer := kind{cert: func() issue.Pair { return must[issue.Pair](t)(p.ca.Peer("dc1", "p2", nil, hour)) }}
	if id, err := who(peer); err != nil || id.GetPrincipal() != "user:root" {
		t.Errorf("a peer's word was not believed: %v, %v", id, err)
	}
}

// TestRevokedWhileWatching checks that a stream ends without another message once its
// token is revoked.
func TestRevokedWhileWatching(t *testing.T) {
	p := secure(t, auth.Config{})
	c := p.connect(t, kind{token: &holdfastv1.Token{Name: "v", Role: holdfastv1.Role_VIEWER}})
	w, err := holdfastv1.NewRunServiceClient(c.conn).WatchRuns(c.ctx(t), &holdfastv1.WatchRunsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the current state
		if _, err := w.Recv(); err != nil {
			t.Fatal(err)
		}
	}
	p.Do(t, &internalv1.RevokeToken{TokenId: "tok-v"})
	p.End(t, "run-00a", 1, holdfastv1.Attempt_SUCCEEDED)
	e, err := w.Recv()
	wantError(t, err, codes.Unauthenticated, auth.ReasonTokenRevoked)
	if e != nil {
		t.Errorf("got %v", e)
	}
	_, err = holdfastv1.NewRunServiceClient(c.conn).GetRun(c.ctx(t), &holdfastv1.GetRunRequest{RunId: "run-00a"})
	wantError(t, err, codes.Unauthenticated, auth.ReasonTokenRevoked)
}

// incoming is a stream whose messages are sent by the test.
type incoming struct {
	grpc.ServerStream
	ctx  context.Context
	come chan struct{}
}

func (s *incoming) Context() context.Context { return s.ctx }

func (s *incoming) RecvMsg(any) error {
	<-s.come
	return nil
}

// TestRevokedWhileSending checks that a message received after the revocation of the
// token is refused.
func TestRevokedWhileSending(t *testing.T) {
	p := secure(t, auth.Config{})
	c := p.connect(t, kind{token: &holdfastv1.Token{Name: "o", Role: holdfastv1.Role_OPERATOR}})
	took := make(chan error, 2)
	desc := &grpc.StreamServerInfo{FullMethod: holdfastv1.ConsoleService_Attach_FullMethodName}
	ctx := metadata.NewIncomingContext(testCtx(t), metadata.Pairs("authorization", "Bearer "+c.token))
	ss := &incoming{ctx: grpcpeer.NewContext(ctx, &grpcpeer.Peer{Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}}),
		come: make(chan struct{})}
	go func() {
		err := p.s.serveStream(nil, ss, desc, func(_ any, s grpc.ServerStream) error {
			for range 2 {
				took <- s.RecvMsg(nil)
			}
			return nil
		})
		if err != nil {
			took <- err
		}
	}()
	ss.come <- struct{}{}
	if err := <-took; err != nil {
		t.Fatal(err)
	}
	p.Do(t, &internalv1.RevokeToken{TokenId: "tok-o"})
	ss.come <- struct{}{}
	wantError(t, <-took, codes.Unauthenticated, auth.ReasonTokenRevoked)
}

// BenchmarkAuthenticated compares calls with a token to anonymous calls, over a
// connection without TLS.
func BenchmarkAuthenticated(b *testing.B) {
	n := nodetest.New()
	n.Machine(b, "m-1")
	secret, hash := secrets.NewToken()
	n.Do(b, &internalv1.CreateToken{Token: &internalv1.StoredToken{Sha256: hash,
		Token: &holdfastv1.Token{TokenId: "t1", Name: "bench", Role: holdfastv1.Role_OPERATOR}}})
	closed, _, err := auth.ForNode(auth.Config{PeerID: "p1", RatePerSecond: -1}, &secured{Node: n}, n.Peer)
	if err != nil {
		b.Fatal(err)
	}
	for name, gate := range map[string]*auth.Gate{"open": auth.Open(), "token": closed} {
		s := New(Config{Gate: gate}, n, n.Peer, testProviders())
		c := holdfastv1.NewMachineServiceClient(s.InProcess())
		ctx := metadata.AppendToOutgoingContext(context.Background(), "authorization", "Bearer "+secret)
		b.Run("GetMachine/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.GetMachine(ctx, &holdfastv1.GetMachineRequest{MachineId: "m-1"}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestRevokedBeforeItsRetry checks that the outcome of a call is not repeated to a caller whose
// token was revoked in between, whether the caller retries or another peer delivers the call again.
func TestRevokedBeforeItsRetry(t *testing.T) {
	p := secure(t, auth.Config{})
	c := p.connect(t, kind{token: &holdfastv1.Token{Name: "op", Role: holdfastv1.Role_OPERATOR}})
	other := p.connect(t, kind{cert: func() issue.Pair {
		return must[issue.Pair](t)(p.ca.Peer("dc1", "p2", nil, time.Now().Add(time.Hour)))
	}})
	identity := &holdfastv1.Identity{Principal: "token:op", Role: holdfastv1.Role_OPERATOR, Method: "token",
		TokenId: "tok-op"}
	forwarded := must[[]byte](t)(proto.Marshal(&internalv1.ForwardedCaller{Identity: identity, Source: "10.0.0.1",
		Method: "NodeService/ReportNode", Peer: "p2"}))
	ways := map[string]func() (*holdfastv1.Machine, error){}
	for name, from := range map[string]struct {
		conn *grpc.ClientConn
		ctx  func() context.Context
	}{
		"by the caller": {c.conn, func() context.Context { return c.ctx(t) }},
		"by another peer": {other.conn, func() context.Context {
			return metadata.AppendToOutgoingContext(testCtx(t), "holdfast-identity-bin", string(forwarded))
		}},
	} {
		ways[name] = func() (*holdfastv1.Machine, error) {
			return holdfastv1.NewNodeServiceClient(from.conn).ReportNode(from.ctx(), &holdfastv1.ReportNodeRequest{
				MacAddress: macA, InstallationStatus: "started", RequestId: "report-1"})
		}
	}
	for name, send := range ways {
		if _, err := send(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	p.Do(t, &internalv1.RevokeToken{TokenId: "tok-op"})
	for name, send := range ways {
		m, err := send()
		if m != nil {
			t.Errorf("%s: got %v", name, m)
		}
		wantError(t, err, codes.Unauthenticated, auth.ReasonTokenRevoked)
	}
}
