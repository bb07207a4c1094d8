package server

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/cluster/peertls"
	"github.com/holdfast-metal/holdfast/cluster/peertls/issue"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/secrets"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/internal/nodetest"
)

// secured is a peer with real listeners, TLS and authentication, over a real state.
type secured struct {
	*nodetest.Node
	t       *testing.T
	s       *Server
	ca      *issue.CA
	grpc    string
	http    string
	methods []protoreflect.MethodDescriptor
	routes  []auth.Route
}

// PeerConn implements auth.Peers: there is no other peer.
func (*secured) PeerConn(id string) (grpc.ClientConnInterface, error) {
	return nil, errors.New("no peer " + id)
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// secure starts a peer. There are two pools with a machine each: m-a, which has a run,
// and m-b.
func secure(t *testing.T, cfg auth.Config) *secured {
	t.Helper()
	return secureWith(t, cfg, func(*Config) {})
}

// secureWith starts a peer with additional configuration.
func secureWith(
	t *testing.T, cfg auth.Config, change func(*Config), apis ...func(*auth.Mux, grpc.ClientConnInterface),
) *secured {
	t.Helper()
	n, _ := twoPools(t)
	p := &secured{Node: n, t: t, ca: must[*issue.CA](t)(issue.NewCA("dc1", time.Now().Add(time.Hour)))}
	dir := t.TempDir()
	pair := must[issue.Pair](t)(p.ca.Peer("dc1", "p1", nil, time.Now().Add(time.Hour)))
	write := func(name string, b []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	store := must[*peertls.Store](t)(peertls.Open(peertls.Config{
		CA: write("ca.pem", p.ca.Pair.Cert), Cert: write("p1.pem", pair.Cert), Key: write("p1-key.pem",
			pair.Key), PeerID: "p1",
	}))
	cfg.PeerID, cfg.Cluster = "p1", "dc1"
	cfg.Member = func(context.Context, *peertls.Caller) error { return nil }
	gate, forwarder, err := auth.ForNode(cfg, p, n.Peer)
	if err != nil {
		t.Fatal(err)
	}
	conf := Config{Gate: gate}
	change(&conf)
	p.s = New(conf, n, n.Peer, testProviders())
	g := grpc.NewServer(append(p.s.GRPCOptions(), grpc.Creds(credentials.NewTLS(store.API())))...)
	p.s.Register(g)
	forwarder.Register(g)
	p.registerTheRest(g)
	mux := p.s.HTTPHandler(apis...)
	p.routes = mux.Routes()
	site := p.s.HTTPServer(mux)
	site.TLSConfig = store.HTTP()

	listen := func() net.Listener {
		l := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
		return peertls.Listen(l)
	}
	gl, hl := listen(), listen()
	p.grpc, p.http = gl.Addr().String(), hl.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{}, 3)
	go func() { _ = g.Serve(gl); done <- struct{}{} }()
	go func() { _ = site.ServeTLS(hl, "", ""); done <- struct{}{} }()
	go func() { _ = gate.Denials().Run(ctx); done <- struct{}{} }()
	t.Cleanup(func() {
		cancel()
		p.s.Drain()
		g.Stop()
		_ = site.Close()
		for range 3 {
			<-done
		}
	})
	return p
}

// registerTheRest registers every service without an implementation here, so that each
// method can be called over a real listener. A call that passes the gate returns
// UNIMPLEMENTED.
func (p *secured) registerTheRest(g *grpc.Server) {
	known := g.GetServiceInfo()
	protoregistry.GlobalFiles.RangeFiles(func(fd protoreflect.FileDescriptor) bool {
		for i := range fd.Services().Len() {
			sd := fd.Services().Get(i)
			desc := &grpc.ServiceDesc{ServiceName: string(sd.FullName()), HandlerType: (*any)(nil)}
			for j := range sd.Methods().Len() {
				md := sd.Methods().Get(j)
				p.methods = append(p.methods, md)
				name := "/" + string(sd.FullName()) + "/" + string(md.Name())
				if md.IsStreamingServer() || md.IsStreamingClient() {
					desc.Streams = append(desc.Streams, grpc.StreamDesc{StreamName: string(md.Name()), ServerStreams: true,
						ClientStreams: md.IsStreamingClient(),
						Handler:       func(any, grpc.ServerStream) error { return status.Error(codes.Unimplemented, "") }})
					continue
				}
				in := must[protoreflect.MessageType](p.t)(protoregistry.GlobalTypes.FindMessageByName(md.Input().FullName()))
				desc.Methods = append(desc.Methods, grpc.MethodDesc{MethodName: string(md.Name()),
					Handler: func(srv any, ctx context.Context, dec func(any) error, intercept grpc.UnaryServerInterceptor) (any,
						error) {
						req := in.New().Interface()
						if err := dec(req); err != nil {
							return nil, err
						}
						return intercept(ctx, req, &grpc.UnaryServerInfo{Server: srv, FullMethod: name},
							func(context.Context, any) (any, error) {
								return nil, status.Error(codes.Unimplemented, "")
							})
					}})
			}
			if _, ok := known[desc.ServiceName]; !ok {
				g.RegisterService(desc, new(any))
			}
		}
		return true
	})
}

// kind is a kind of caller.
type kind struct {
	name  string
	token *holdfastv1.Token
	// roles are the roles in docs/permissions.md that the kind has; none if it is not
	// authenticated.
	roles []string
	// code is the answer to all methods except public ones, for unauthenticated callers.
	code codes.Code
	cert func() issue.Pair
}

func (p *secured) kinds() []kind {
	hour := time.Now().Add(time.Hour)
	pair := func(f func() (issue.Pair, error)) func() issue.Pair {
		return func() issue.Pair { return must[issue.Pair](p.t)(f()) }
	}
	other := must[*issue.CA](p.t)(issue.NewCA("dc1", hour))
	past := timestamppb.New(p.Peer.Now.Add(-time.Hour))
	return []kind{
		{name: "no credentials", code: codes.Unauthenticated},
		{name: "wrong CA", code: codes.Unavailable,
			cert: pair(func() (issue.Pair, error) { return other.Client("eve", []string{"admin"}, hour) })},
		{name: "peer of a wrong CA", code: codes.Unavailable,
			cert: pair(func() (issue.Pair, error) { return other.Peer("dc1", "p2", nil, hour) })},
		{name: "peer of another cluster", code: codes.Unavailable,
			cert: pair(func() (issue.Pair, error) { return p.ca.Peer("dc2", "p2", nil, hour) })},
		{name: "expired certificate", code: codes.Unavailable,
			cert: pair(func() (issue.Pair, error) {
				return p.ca.Client("bob", []string{"admin"},
					time.Now().Add(-time.Minute))
			})},
		{name: "revoked token", code: codes.Unauthenticated, token: &holdfastv1.Token{Name: "revoked",
			Role: holdfastv1.Role_ADMIN, RevokedAt: past}},
		{name: "expired token", code: codes.Unauthenticated, token: &holdfastv1.Token{Name: "expired",
			Role: holdfastv1.Role_ADMIN, ExpiresAt: past}},
		{name: "no role", roles: []string{"somebody"},
			cert: pair(func() (issue.Pair, error) { return p.ca.Client("norole", []string{"Engineering"}, hour) })},
		{name: "viewer", roles: []string{"viewer"}, token: &holdfastv1.Token{Name: "viewer", Role: holdfastv1.Role_VIEWER}},
		{name: "viewer by certificate", roles: []string{"viewer"},
			cert: pair(func() (issue.Pair, error) { return p.ca.Client("vera", []string{"viewer"}, hour) })},
		{name: "operator", roles: []string{"viewer", "operator", "operator of all pools"},
			token: &holdfastv1.Token{Name: "operator", Role: holdfastv1.Role_OPERATOR}},
		{name: "operator of another pool", roles: []string{"viewer", "operator"},
			token: &holdfastv1.Token{Name: "other", Role: holdfastv1.Role_OPERATOR, Pools: []string{"b"}}},
		{name: "agent", roles: []string{"agent"}, token: &holdfastv1.Token{Name: "agent", Role: holdfastv1.Role_AGENT,
			MachineId: "m-a"}},
		{name: "agent of another machine", roles: []string{"agent"},
			token: &holdfastv1.Token{Name: "agent-b", Role: holdfastv1.Role_AGENT, MachineId: "m-b"}},
		{name: "pool agent", roles: []string{"pool-agent"}, token: &holdfastv1.Token{Name: "pool",
			Role: holdfastv1.Role_POOL_AGENT, Pools: []string{"a"}}},
		{name: "pool agent of another pool", roles: []string{"pool-agent"},
			token: &holdfastv1.Token{Name: "pool-b", Role: holdfastv1.Role_POOL_AGENT, Pools: []string{"b"}}},
		{name: "service", roles: []string{"service"}, token: &holdfastv1.Token{Name: "service",
			Role: holdfastv1.Role_SERVICE}},
		{name: "backup", roles: []string{"backup"},
			cert: pair(func() (issue.Pair, error) { return p.ca.Client("snapshots", []string{"backup"}, hour) })},
		{name: "admin", roles: []string{"viewer", "operator", "operator of all pools", "admin"},
			token: &holdfastv1.Token{Name: "admin", Role: holdfastv1.Role_ADMIN}},
		{name: "peer", roles: []string{"peers"},
			cert: pair(func() (issue.Pair, error) { return p.ca.Peer("dc1", "p2", nil, hour) })},
	}
}

// issue stores a token. If it must be dead, it is valid only until it is stored.
func (p *secured) issue(t *testing.T, tok *holdfastv1.Token) string {
	t.Helper()
	tok = proto.CloneOf(tok)
	tok.TokenId = "tok-" + tok.GetName()
	secret, hash := secrets.NewToken()
	dead := tok.GetExpiresAt()
	revoke := tok.GetRevokedAt() != nil
	tok.ExpiresAt, tok.RevokedAt = nil, nil
	if dead != nil { // the state's clock is far behind ours
		tok.ExpiresAt = timestamppb.New(p.Peer.Now.Add(time.Minute))
	}
	p.Do(t, &internalv1.CreateToken{Token: &internalv1.StoredToken{Token: tok, Sha256: hash}})
	if revoke {
		p.Do(t, &internalv1.RevokeToken{TokenId: tok.GetTokenId()})
	}
	return secret
}

// caller is a connected caller of one kind.
type caller struct {
	kind
	conn  *grpc.ClientConn
	web   *http.Client
	token string
}

func (p *secured) connect(t *testing.T, k kind) *caller {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(p.ca.Pair.Cert)
	conf := &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	if k.cert != nil {
		pair := k.cert()
		c := must[tls.Certificate](t)(tls.X509KeyPair(pair.Cert, pair.Key))
		// An attacker ignores the list of CAs that the server sends.
		conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &c, nil }
	}
	conn := must[*grpc.ClientConn](t)(grpc.NewClient(p.grpc, grpc.WithTransportCredentials(credentials.NewTLS(conf))))
	c := &caller{kind: k, conn: conn, web: &http.Client{Transport: &http.Transport{TLSClientConfig: conf.Clone()},
		Timeout: 20 * time.Second}}
	if k.token != nil {
		c.token = p.issue(t, k.token)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		c.web.CloseIdleConnections()
	})
	return c
}

func (c *caller) ctx(t *testing.T) context.Context {
	ctx := testCtx(t)
	if c.token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+c.token)
	}
	return ctx
}

// call makes a call and returns its outcome.
func (c *caller) call(t *testing.T, md protoreflect.MethodDescriptor, req proto.Message, let bool) error {
	t.Helper()
	name := "/" + string(md.Parent().FullName()) + "/" + string(md.Name())
	ctx, cancel := context.WithCancel(c.ctx(t))
	defer cancel()
	if !md.IsStreamingServer() && !md.IsStreamingClient() {
		out := must[protoreflect.MessageType](t)(protoregistry.GlobalTypes.FindMessageByName(md.Output().FullName()))
		return c.conn.Invoke(ctx, name, req, out.New().Interface())
	}
	s, err := c.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, name)
	if err != nil {
		return err
	}
	if err := s.SendMsg(req); err == nil && !md.IsStreamingClient() {
		_ = s.CloseSend()
	}
	first := make(chan error, 1)
	go func() {
		out, err := protoregistry.GlobalTypes.FindMessageByName(md.Output().FullName())
		if err == nil {
			err = s.RecvMsg(out.New().Interface())
		}
		first <- err
	}()
	silence := 300 * time.Millisecond // a watch of nothing says nothing: it was let in
	if !let {
		silence = 30 * time.Second // the refusal will come
	}
	quiet := time.NewTimer(silence)
	defer quiet.Stop()
	select {
	case err := <-first:
		if err != nil && strings.Contains(err.Error(), "EOF") {
			return nil
		}
		return err
	case <-quiet.C:
		cancel()
		if err := <-first; status.Code(err) != codes.Canceled {
			return err
		}
		return nil
	}
}

// about sets the fields of a request to resources of m-a and pool a.
func about(md protoreflect.MethodDescriptor) proto.Message {
	t, err := protoregistry.GlobalTypes.FindMessageByName(md.Input().FullName())
	if err != nil {
		panic(err)
	}
	m := t.New()
	values := map[string]string{
		"machine_id": "m-a", "run_id": "run-00a", "plan_id": "plan/reboot", "pool_id": "a", "pool": "a", "pool_name": "a",
		"id":          "m-a",
		"mac_address": macA, "token_id": "tok-none", "name": "none", "request_id": "r", "type": "REBOOT",
	}
	// others still need it
	if n := string(md.Name()); strings.HasPrefix(n, "Delete") || strings.HasPrefix(n, "Cancel") ||
		n == "CreateAgentMachine" {
		values["machine_id"], values["run_id"], values["pool_id"] = "m-none", "run-none", "none"
	}
	fill(m, 0, values)
	return m.Interface()
}

func fill(m protoreflect.Message, depth int, values map[string]string) {
	fds := m.Descriptor().Fields()
	for i := range fds.Len() {
		fd := fds.Get(i)
		v, ok := values[string(fd.Name())]
		switch {
		case fd.Name() == "mac_addresses":
			m.Mutable(fd).List().Append(protoreflect.ValueOfString(macA))
		case fd.IsList() || fd.IsMap():
		case fd.Kind() == protoreflect.StringKind && ok && v != "":
			m.Set(fd, protoreflect.ValueOfString(v))
		case fd.Message() != nil && depth < 2 &&
			slices.Contains([]string{"machine", "spec", "pool", "target", "provider", "plan"}, string(fd.Name())):
			fill(m.Mutable(fd).Message(), depth+1, values)
		}
	}
}

// documented returns a table of docs/permissions.md: methods, and the callers they allow.
func documented(t *testing.T, head string) map[string][]string {
	t.Helper()
	f := must[*os.File](t)(os.Open("../docs/permissions.md"))
	defer func() { _ = f.Close() }()
	table := map[string][]string{}
	in := false
	for s := bufio.NewScanner(f); s.Scan(); {
		line := s.Text()
		switch {
		case line == head:
			in = true
		case in && strings.HasPrefix(line, "| `"):
			what, who, _ := strings.Cut(strings.Trim(line, "| "), " | ")
			table[strings.Trim(what, "`")] = strings.Split(who, ", ")
		case in && !strings.HasPrefix(line, "|"):
			in = false
		}
	}
	return table
}

// expect returns the expected result of a kind of caller: allowed, or a code.
func (k *kind) expect(who []string) (let bool, code codes.Code) {
	switch {
	case k.code == codes.Unavailable:
		return false, k.code
	case slices.Contains(who, "anybody over HTTP") && !slices.Contains(k.roles, "peers"): // this is the gRPC method; its route has a row of its own
		return false, codes.PermissionDenied
	case slices.Contains(who, "anybody"):
		return true, codes.OK
	case k.roles == nil:
		return false, k.code
	case k.roles[0] != "peers" && slices.Contains(who, "anybody with credentials"):
		return true, codes.OK
	case slices.ContainsFunc(k.roles, func(r string) bool { return slices.Contains(who, r) }):
		return true, codes.OK
	}
	// An admin may call everything except methods for peers.
	if slices.Contains(k.roles, "admin") && !slices.Contains(who, "peers") {
		return true, codes.OK
	}
	return false, codes.PermissionDenied
}

// foreign reports whether the rule or the FSM refuses a change although the role is
// allowed, because m-a and pool a are not the caller's.
func (k *kind) foreign(method string) bool {
	reads := strings.Contains(method, "/Get") || strings.Contains(method, "/List") || strings.Contains(method, "/Watch") ||
		strings.Contains(method, "/Stream") || strings.Contains(method, "/Explain") || strings.HasPrefix(method, "grpc.") ||
		strings.HasSuffix(method, "WhoAmI")
	if reads {
		return false
	}
	switch k.name {
	case "operator of another pool", "agent of another machine", "pool agent of another pool":
		return true
	}
	return false
}

// TestMatrix checks every method and every route with every kind of caller, over TLS,
// against docs/permissions.md.
func TestMatrix(t *testing.T) {
	p := secure(t, auth.Config{RatePerSecond: -1})
	methods, routes := documented(t, "| method | who |"), documented(t, "| route | who |")
	for _, md := range p.methods {
		if name := string(md.Parent().FullName()) + "/" + string(md.Name()); methods[name] == nil {
			t.Errorf("docs/permissions.md does not list the callers of %s", name)
		}
	}
	if len(methods) != len(p.methods) {
		t.Errorf("docs/permissions.md has %d methods, there are %d", len(methods), len(p.methods))
	}
	for _, k := range p.kinds() {
		t.Run(k.name, func(t *testing.T) {
			c := p.connect(t, k)
			t.Parallel()
			for _, md := range p.methods {
				name := string(md.Parent().FullName()) + "/" + string(md.Name())
				let, code := k.expect(methods[name])
				err := c.call(t, md, about(md), let)
				checkAnswer(t, name, k, let, code, err)
			}
			for _, r := range p.routes {
				let, code := k.expect(routes[r.Pattern])
				c.checkRoute(t, p.http, r.Pattern, let, code)
			}
		})
	}
}

func checkAnswer(t *testing.T, name string, k kind, let bool, code codes.Code, err error) {
	t.Helper()
	got := status.Code(err)
	refused := got == codes.PermissionDenied || got == codes.Unauthenticated || got == codes.ResourceExhausted
	switch {
	case let && detail[*errdetails.ErrorInfo](err).GetReason() == fsm.ReasonInstallToken: // it came as far as the token in the request, which is about no install
	case let && k.foreign(name):
		if !refused && got != codes.InvalidArgument && got != codes.NotFound {
			t.Errorf("%s about what is not its own: got %v", name, err)
		}
	case let && refused:
		t.Errorf("%s: got %v, want to be let in", name, err)
	case !let && got != code:
		t.Errorf("%s: got %v, want %v", name, err, code)
	}
	if err != nil && got != codes.OK && status.Convert(err).Message() == "" && refused {
		t.Errorf("%s: the refusal says nothing", name)
	}
}

// checkRoute requests a route. A caller refused in the handshake gets no response.
func (c *caller) checkRoute(t *testing.T, addr, pattern string, let bool, code codes.Code) {
	t.Helper()
	method, path, _ := strings.Cut(pattern, " ")
	req := must[*http.Request](t)(http.NewRequestWithContext(testCtx(t), method, "https://"+addr+path, nil))
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.web.Do(req)
	if err != nil {
		if code != codes.Unavailable {
			t.Errorf("%s: %v", pattern, err)
		}
		return
	}
	_ = resp.Body.Close()
	want := map[codes.Code]int{codes.Unauthenticated: 401, codes.PermissionDenied: 403}[code]
	switch {
	case code == codes.Unavailable:
		t.Errorf("%s: answered %d to a certificate that is no good", pattern, resp.StatusCode)
	case let && (resp.StatusCode == 401 || resp.StatusCode == 403), !let && resp.StatusCode != want:
		t.Errorf("%s: got %d, want let in %v, else %d", pattern, resp.StatusCode, let, want)
	}
	if resp.StatusCode == 401 && resp.Header.Get("WWW-Authenticate") == "" {
		t.Errorf("%s: a 401 without WWW-Authenticate", pattern)
	}
}
