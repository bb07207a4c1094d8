package security

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/crypto/ssh"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/localcluster"
	"github.com/holdfast-metal/holdfast/internal/secrets"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/test/program"
)

// site is a cluster with planted secrets, and all its answers.
type site struct {
	*localcluster.Cluster
	t       *testing.T
	dir     string
	keyFile string
	client  *client.Client
	needles Needles

	mu   sync.Mutex
	seen bytes.Buffer // answers and errors
}

func random(what string) string {
	b := make([]byte, 12)
	_, _ = rand.Read(b) // never fails: see crypto/rand
	return "planted-" + what + "-" + hex.EncodeToString(b)
}

func (s *site) plant(what, secret string) string {
	s.needles[what] = secret
	return secret
}

// record stores an answer for the search.
func (s *site) record(name string, it any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = fmt.Fprintf(&s.seen, "%s: %v\n", name, it)
	if err, ok := it.(error); ok {
		_, _ = fmt.Fprintf(&s.seen, "%+v %v\n", err, status.Convert(err).Details())
	}
}

func newKey(t *testing.T, id string) string {
	t.Helper()
	line, err := secrets.NewKeyLine(id)
	if err != nil {
		t.Fatal(err)
	}
	return line
}

func open(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, dir: t.TempDir(), needles: Needles{}}
	s.keyFile = filepath.Join(t.TempDir(), "secrets.keys") // not searched: it may have it
	s.keys(newKey(t, "k1"))
	bin := program.Holdfast(t)
	hw, err := localcluster.StartFakeHardware(t.Context(), bin, s.dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hw.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s.Cluster, err = localcluster.Start(ctx, localcluster.Config{Binary: bin, Dir: s.dir, FakeEndpoint: hw.Endpoint,
		Args: []string{
			"--secrets-key-file", s.keyFile, "--log-level", "debug", "--oidc-key-rotation", "40s",
			"--raft-snapshot-threshold", "20", "--raft-snapshot-interval", "500ms", "--raft-trailing-logs", "4"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if s.client, err = client.Dial(client.Config{Addrs: s.Addrs(), TLS: s.TLS(), Timeout: 30 * time.Second}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.client.Close() })
	return s
}

// keys writes the file of secrets keys, and plants each key.
func (s *site) keys(lines ...string) {
	s.t.Helper()
	for _, l := range lines {
		id, key, _ := strings.Cut(l, ":")
		s.plant("secrets key "+id, key)
	}
	tmp := s.keyFile + ".new"
	if err := os.WriteFile(tmp, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(tmp, s.keyFile); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) put(name, kind string, values map[string]string) error {
	r, err := s.client.Secrets().PutSecret(s.t.Context(), &holdfastv1.PutSecretRequest{Name: name, Type: kind,
		Values: values})
	s.record("put", r) // the name may be a misplaced secret
	if err != nil {
		s.record("put", err)
	}
	return err
}

// do makes an HTTP request to a peer, and records the answer.
func (s *site) do(p *localcluster.Peer, method, path, body string, header map[string]string) int {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, p.URL(path), strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for k, v := range header {
		r.Header.Set(k, v)
	}
	resp, err := s.HTTP().Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	s.record(fmt.Sprint(p.ID, " ", method, " ", resp.StatusCode), string(b))
	s.record("headers", fmt.Sprint(resp.Header))
	return resp.StatusCode
}

// accessToken gets an access token from a peer as a client does.
func (s *site) accessToken(p *localcluster.Peer, id, secret string) (string, error) {
	ctx, cancel := context.WithTimeout(context.WithValue(s.t.Context(), oauth2.HTTPClient, s.HTTP()), 20*time.Second)
	defer cancel()
	provider, err := oidc.NewProvider(ctx, p.URL("/oidc"))
	if err != nil {
		return "", err
	}
	c := clientcredentials.Config{ClientID: id, ClientSecret: secret, TokenURL: provider.Endpoint().TokenURL}
	tok, err := c.Token(ctx)
	if err != nil {
		return "", err
	}
	if _, err := provider.Verifier(&oidc.Config{ClientID: "holdfast",
		SupportedSigningAlgs: []string{"ES256"}}).Verify(ctx, tok.AccessToken); err != nil {
		return "", err
	}
	return tok.AccessToken, nil
}

func until(t *testing.T, name string, d time.Duration, cond func() error) {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(d); ; <-tick.C {
		err := cond()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("wait for %s: %v", name, err)
		}
	}
}

// TestPlantedSecretsStayInside plants secrets in a cluster, and finds them only sealed or hashed:
// not in data, snapshots, logs, metrics, answers, errors or the audit trail. Meanwhile, clients of
// the built-in issuer must work through the death of the leader and a rotation of all keys.
func TestPlantedSecretsStayInside(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute: run without -short")
	}
	s := open(t)
	ctx := t.Context()

	s.plantSecrets()
	clientID, clientSecret := s.plantTokens()
	s.provoke(clientID, clientSecret)

	// Every peer issues tokens, and accepts those of the others.
	issued := map[string]string{}
	for _, p := range s.Peers() {
		until(t, "an access token of "+p.ID, 30*time.Second, func() error {
			tok, err := s.accessToken(p, clientID, clientSecret)
			issued[p.ID] = tok
			return err
		})
		s.plant("access token of "+p.ID, issued[p.ID][strings.LastIndexByte(issued[p.ID], '.')+1:])
	}
	check := func(when string) {
		t.Helper()
		for _, tok := range issued {
			for _, p := range s.Peers() {
				if !p.Running() {
					continue
				}
				until(t, "an answer of "+p.ID+" "+when, 20*time.Second, func() error { return s.whoAmI(p, tok) })
			}
		}
	}
	check("at first")

	leader, err := s.Leader(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := leader.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, p := range s.Peers() {
		if p == leader {
			continue
		}
		until(t, "an access token while a peer is dead", 20*time.Second, func() error {
			_, err := s.accessToken(p, clientID, clientSecret)
			return err
		})
	}
	check("with a dead leader")
	if err := leader.Start(ctx); err != nil {
		t.Fatal(err)
	}
	wait, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := s.WaitReady(wait); err != nil {
		t.Fatal(err)
	}

	s.rotate()
	check("after the secrets were sealed again")
	until(t, "a new signing key", 90*time.Second, func() error {
		tok, err := s.accessToken(s.Peers()[1], clientID, clientSecret)
		if err == nil && strings.SplitN(tok, ".", 2)[0] == strings.SplitN(issued["n1"], ".", 2)[0] {
			err = errors.New("token is signed with the old key")
		}
		return err
	})
	check("with a new signing key")

	// A revoked client is refused everywhere at once.
	if _, err := s.client.Access().RevokeToken(ctx, &holdfastv1.RevokeTokenRequest{TokenId: clientID}); err != nil {
		t.Fatal(err)
	}
	for _, p := range s.Peers() {
		until(t, "the revocation at "+p.ID, 30*time.Second, func() error {
			if err := s.whoAmI(p, issued["n1"]); err == nil || !strings.Contains(err.Error(), "401") {
				return fmt.Errorf("got %w, want 401", err)
			}
			return nil
		})
		if _, err := s.accessToken(p, clientID, clientSecret); err == nil {
			t.Errorf("%s: got a token for a revoked client", p.ID)
		}
	}
	s.snapshot()
	s.search()
}

func (s *site) plantSecrets() {
	s.t.Helper()
	_, priv, err := ed25519.GenerateKey(nil)
	if err != nil {
		s.t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(priv, "")
	if err != nil {
		s.t.Fatal(err)
	}
	text := string(pem.EncodeToMemory(block))
	s.plant("SSH key", strings.Split(text, "\n")[3]) // a line of the key
	for _, p := range []struct {
		name, kind string
		values     map[string]string
	}{
		{"bmc/r7", "bmc", map[string]string{"username": "root", "password": s.plant("BMC password", random("bmc"))}},
		{"ssh/r7", "ssh", map[string]string{"username": "root", "private_key": text,
			"password": s.plant("SSH password", random("ssh"))}},
		{"join/a", "join", map[string]string{"token": s.plant("join token", random("join"))}},
		{"any/a", "opaque", map[string]string{"x": s.plant("first version", random("first"))}},
		{"any/a", "opaque", map[string]string{"x": s.plant("second version", random("second"))}},
		{"any/b", "token", map[string]string{"token": s.plant("deleted value", random("deleted"))}},
	} {
		if err := s.put(p.name, p.kind, p.values); err != nil {
			s.t.Fatal(err)
		}
	}
	if _, err := s.client.Secrets().DeleteSecret(s.t.Context(),
		&holdfastv1.DeleteSecretRequest{Name: "any/b"}); err != nil {
		s.t.Fatal(err)
	}
	list, err := s.client.Secrets().ListSecrets(s.t.Context(), &holdfastv1.ListSecretsRequest{})
	if err != nil || len(list.GetSecrets()) != 4 {
		s.t.Fatalf("list secrets: got %v, %v", list, err)
	}
	s.record("list", list)
}

// plantTokens creates tokens of several roles, and a client of the issuer, which it returns.
func (s *site) plantTokens() (id, secret string) {
	s.t.Helper()
	for _, r := range []*holdfastv1.CreateTokenRequest{
		{Name: "viewer", Role: holdfastv1.Role_VIEWER}, {Name: "admin", Role: holdfastv1.Role_ADMIN},
		{Name: "tools", Role: holdfastv1.Role_SERVICE},
	} {
		made, err := s.client.Access().CreateToken(s.t.Context(), r)
		if err != nil {
			s.t.Fatal(err)
		}
		s.plant("token "+r.GetName(), made.GetSecret())
		id, secret = made.GetToken().GetTokenId(), made.GetSecret()
	}
	return id, secret
}

// provoke makes failing requests that contain secrets, on every API.
func (s *site) provoke(clientID, clientSecret string) {
	s.t.Helper()
	wrong := func(what string) string { return s.plant(what, random("wrong")) }
	for _, bad := range []struct {
		name, kind string
		values     map[string]string
	}{
		{"x", "ssh", map[string]string{"username": "root", "private_key": wrong("an invalid SSH key")}},
		{"x", wrong("a value for a type"), map[string]string{"a": "b"}},
		{"x", "opaque", map[string]string{wrong("a value for a key") + "!": "x"}},
		{wrong("a value for a name") + " ", "opaque", map[string]string{"a": "b"}},
		{"x", "bmc", map[string]string{"username": "root", "password": wrong("a password beside junk"), "rubbish": "x"}},
	} {
		if err := s.put(bad.name, bad.kind, bad.values); status.Code(err) != codes.InvalidArgument {
			s.t.Errorf("put secret %s of type %s: got %v", bad.name, bad.kind, err)
		}
	}
	for _, p := range s.Peers() {
		bearer := map[string]string{"Authorization": "Bearer " + wrong("an unknown bearer token "+p.ID)}
		form := map[string]string{"Content-Type": "application/x-www-form-urlencoded"}
		s.do(p, "GET", "/metrics", "", bearer)
		s.do(p, "POST", "/oidc/token", url.Values{"grant_type": {"client_credentials"}, "client_id": {clientID},
			"client_secret": {wrong("a client secret " + p.ID)}}.Encode(), form)
		s.do(p, "POST", "/oidc/token", "grant_type=client_credentials&client_secret="+clientSecret+"&x=%zz", form)
		s.do(p, "POST", "/oidc/token?client_secret="+clientSecret, "grant_type=client_credentials", form)
		s.do(p, "POST", "/oidc/token", `{"client_secret": "`+wrong("a secret in JSON "+p.ID)+`"`, nil)
		s.do(p, "GET", "/nothing?token="+clientSecret, "", nil)
	}
	anonymous := s.TLS()
	anonymous.Certificates, anonymous.GetClientCertificate = nil, nil
	c, err := client.Dial(client.Config{Addrs: s.Addrs(), TLS: anonymous, Token: wrong("an unknown token"),
		Timeout: 10 * time.Second})
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_, err = c.Secrets().ListSecrets(s.t.Context(), &holdfastv1.ListSecretsRequest{})
	if status.Code(err) != codes.Unauthenticated {
		s.t.Errorf("unknown token: got %v", err)
	}
	s.record("unknown token", err)
}

// whoAmI sends a token to /metrics of a peer, which answers 403 to services that it knows.
func (s *site) whoAmI(p *localcluster.Peer, token string) error {
	tls := s.TLS()
	tls.Certificates, tls.GetClientCertificate = nil, nil
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: tls, DisableKeepAlives: true}, Timeout: 10 * time.Second}
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, p.URL("/metrics"), nil)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	resp, err := c.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	s.record(p.ID+" to an access token", string(b))
	if resp.StatusCode != http.StatusForbidden || !bytes.Contains(b, []byte(`service "tools"`)) {
		return fmt.Errorf("%d %s", resp.StatusCode, b)
	}
	return nil
}

// rotate introduces a new secrets key, seals all secrets again, and removes the old key.
func (s *site) rotate() {
	s.t.Helper()
	old, err := os.ReadFile(s.keyFile)
	if err != nil {
		s.t.Fatal(err)
	}
	next := newKey(s.t, "k2")
	s.keys(next, strings.TrimSpace(string(old)))
	until(s.t, "the new key in use", 30*time.Second, func() error {
		r, err := s.client.Secrets().RotateSecrets(s.t.Context(), &holdfastv1.RotateSecretsRequest{})
		if err == nil && r.GetKeyId() != "k2" {
			err = fmt.Errorf("primary key is %s", r.GetKeyId())
		}
		return err
	})
	list, err := s.client.Secrets().ListSecrets(s.t.Context(), &holdfastv1.ListSecretsRequest{})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, secret := range list.GetSecrets() {
		if secret.GetKeyId() != "k2" {
			s.t.Errorf("secret %s: got key %s, want the new one", secret.GetName(), secret.GetKeyId())
		}
	}
	s.keys(next)
}

// snapshot makes writes until each peer has a snapshot.
func (s *site) snapshot() {
	s.t.Helper()
	n := 0
	until(s.t, "snapshots", time.Minute, func() error {
		for range 10 {
			n++
			if _, err := s.client.Machines().RegisterMachine(s.t.Context(),
				&holdfastv1.RegisterMachineRequest{Machine: &holdfastv1.Machine{
					MachineId: fmt.Sprint("m-", n), Spec: &holdfastv1.MachineSpec{Provider: "fake",
						BmcCredentialsRef: "bmc/r7"}}}); err != nil {
				return err
			}
		}
		for _, p := range s.Peers() {
			if states, err := filepath.Glob(filepath.Join(p.DataDir, "*", "*", "*", "state.bin")); err != nil ||
				len(states) == 0 {
				if more, err := filepath.Glob(filepath.Join(p.DataDir, "*", "*", "state.bin")); err != nil || len(more) == 0 {
					return fmt.Errorf("peer %s has none", p.ID)
				}
			}
		}
		return nil
	})
	run, err := s.client.Runs().StartRun(s.t.Context(), &holdfastv1.StartRunRequest{MachineId: "m-1",
		RequestId: "planted", Type: "REBOOT"})
	if err != nil {
		s.t.Fatal(err)
	}
	ended, err := s.client.WaitRun(s.t.Context(), run.GetRunId())
	if err != nil {
		s.t.Fatal(err)
	}
	s.record("run", ended)
}

// debugFiles records the files that `operator debug` archives, because they are sent to others.
func (s *site) debugFiles() {
	s.t.Helper()
	stream, err := s.client.Cluster().CollectDebug(s.t.Context(), &holdfastv1.CollectDebugRequest{})
	if err != nil {
		s.t.Fatal(err)
	}
	names := map[string]bool{}
	for {
		part, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			s.t.Fatal(err)
		}
		names[part.GetName()] = true
		s.seen.Write(part.GetData())
	}
	if !names["settings.txt"] || !names["goroutines.txt"] {
		s.t.Errorf("debug files: got %v, want the peer's configuration among them", names)
	}
}

// search searches all data and answers for the secrets.
func (s *site) search() {
	t := s.t
	t.Helper()
	for _, p := range s.Peers() {
		if code := s.do(p, "GET", "/metrics", "", nil); code != 200 {
			t.Errorf("metrics of %s: got status %d", p.ID, code)
		}
		s.do(p, "GET", "/readyz", "", nil)
		s.do(p, "GET", "/oidc/jwks", "", nil)
	}
	s.debugFiles()
	events := 0
	if err := s.client.ExportAudit(t.Context(), 0, func(e *holdfastv1.AuditEvent) error {
		events++
		s.record("audit", e)
		return nil
	}); err != nil || events < 20 {
		t.Errorf("audit trail: got %d events, %v", events, err)
	}
	var files []string
	var bytesSeen int64
	for _, p := range s.Peers() {
		found, size, err := s.needles.Files(p.DataDir)
		if err != nil {
			t.Fatal(err)
		}
		bytesSeen += size
		for _, f := range found {
			t.Errorf("found %s", f)
		}
		files = append(files, p.LogFile)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(b, []byte("level=DEBUG")) {
			t.Errorf("%s: got no debug lines, so the search proves nothing", name)
		}
		for _, f := range s.needles.Text(name, b) {
			i := max(0, bytes.Index(b, spellings(s.needles[f.What])[f.Spelling])-120)
			t.Errorf("found %s: …%s", f, b[i:min(len(b), i+200)])
		}
		// The same search must find a secret that is added to the log.
		leak := append(slices.Clone(b), []byte("level=DEBUG msg=oops password="+s.needles["BMC password"]+"\n")...)
		if len(s.needles.Text(name, leak)) == 0 {
			t.Errorf("search of %s: an added secret was not found", name)
		}
	}
	for _, f := range s.needles.Text("answers and errors", s.seen.Bytes()) {
		t.Errorf("found %s", f)
	}
	t.Logf("searched for %d secrets in %d bytes of data, %d logs, %d bytes of answers, %d audit events", len(s.needles),
		bytesSeen, len(files), s.seen.Len(), events)
}
