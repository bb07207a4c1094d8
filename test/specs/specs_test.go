package specs_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/localcluster"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/test/program"
)

// world is a cluster of processes, and all that clients of its APIs need.
type world struct {
	*localcluster.Cluster
	conn    *grpc.ClientConn              // to the first peer
	conns   map[string]*grpc.ClientConn   // by peer
	next    int                           // the next request goes to this peer, in turn
	tokens  map[string]string             // by name
	signs   []func(since time.Time) error // of running clients: an error if there was no heartbeat since then
	machine string                        // a machine whose agent is to register
}

func start(t *testing.T, multiplier float64) *world {
	t.Helper()
	dir := t.TempDir()
	binary := program.Holdfast(t)
	// Without the build, which may take long on a busy machine.
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	keys := filepath.Join(dir, "secrets.key")
	if err := os.WriteFile(keys, []byte("k1:"+base64.StdEncoding.EncodeToString(key)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := localcluster.Start(ctx, localcluster.Config{Binary: binary, Dir: filepath.Join(dir, "cluster"),
		RaftMultiplier: multiplier,
		Args:           []string{"--platform-margin-percent", "12.5", "--secrets-key-file", keys}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, p := range c.Peers() {
				t.Logf("log of %s:\n%s", p.ID, p.LogTail(3000))
			}
		}
		_ = c.Close()
	})
	w := &world{Cluster: c, tokens: map[string]string{}, conns: map[string]*grpc.ClientConn{}}
	for i, p := range c.Peers() {
		conn, err := grpc.NewClient(c.Addrs()[i], grpc.WithTransportCredentials(c.Credentials()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		w.conns[p.ID] = conn
	}
	w.conn = w.conns[c.Peers()[0].ID]
	w.prepare(ctx, t)
	return w
}

// prepare makes an operator's preparations: a pool, a machine with a token, and other tokens.
func (w *world) prepare(ctx context.Context, t *testing.T) {
	t.Helper()
	// An election may happen meanwhile on a busy machine.
	cl, err := client.Dial(client.Config{Addrs: w.Addrs(), TLS: w.TLS(), Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cl.Close() }()
	if _, err := cl.Pools().CreatePool(ctx,
		&holdfastv1.CreatePoolRequest{Pool: &holdfastv1.Pool{PoolId: "gpu"}}); err != nil {
		t.Fatal(err)
	}
	m, err := cl.Agents().CreateAgentMachine(ctx, &holdfastv1.CreateAgentMachineRequest{Pool: "gpu",
		MachineId: "1165a9b6"})
	if err != nil {
		t.Fatal(err)
	}
	w.machine, w.tokens["machine"] = m.GetMachine().GetMachineId(), m.GetToken()
	for name, req := range map[string]*holdfastv1.CreateTokenRequest{
		"pool":     {Role: holdfastv1.Role_POOL_AGENT, Pools: []string{"pool-1"}},
		"gpu":      {Role: holdfastv1.Role_POOL_AGENT, Pools: []string{"gpu"}},
		"service":  {Role: holdfastv1.Role_SERVICE},
		"operator": {Role: holdfastv1.Role_OPERATOR},
		"admin":    {Role: holdfastv1.Role_ADMIN},
		"viewer":   {Role: holdfastv1.Role_VIEWER},
	} {
		req.Name = name
		tok, err := cl.Access().CreateToken(ctx, req)
		if err != nil {
			t.Fatal(err)
		}
		w.tokens[name] = tok.GetSecret()
		w.tokens[name+"-id"] = tok.GetToken().GetTokenId()
	}
}

// agentTLS returns the TLS configuration of clients that have a token and no certificate.
func (w *world) agentTLS() *tls.Config {
	c := w.TLS().Clone()
	c.Certificates, c.GetClientCertificate = nil, nil
	return c
}

// do sends a request to the next peer.
func (w *world) do(t *testing.T, token, method, path, body string) (int, []byte) {
	t.Helper()
	p := w.Peers()[w.next%len(w.Peers())]
	w.next++
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, p.URL(path), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+w.tokens[token])
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: w.agentTLS(), DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, bytes.TrimSpace(b)
}

// scrub replaces times and generated ids by placeholders.
func scrub(b []byte) string {
	for _, r := range []struct{ pattern, with string }{
		{`"\d{4}-\d\d-\d\dT[0-9:.]+Z"`, `"<time>"`},
		{`"last_keepalive":"\d+"`, `"last_keepalive":"<unix>"`}, {`"next_keepalive_ms":(5[4-9]|6[0-5])\d{3}\b`,
			`"next_keepalive_ms":"<about a minute>"`}, {`"created":"\d+"`, `"created":"<unix>"`},
		{`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`, `<uuid>`},
		{`"id":"[0-9a-f]{8}"`, `"id":"<id>"`},
		{`run-[0-9a-f]{12}`, `<run>`},
	} {
		b = regexp.MustCompile(r.pattern).ReplaceAll(b, []byte(r.with))
	}
	return string(b)
}

// example is one request of a document or of docs/clients.md, and its expected answer.
type example struct {
	name, token, method, path, body string
	status                          int
	want                            string // JSON or another text; "*": the content of testdata/bodies
}

func (w *world) run(t *testing.T, examples []example) {
	t.Helper()
	for _, e := range examples {
		code, body := w.do(t, e.token, e.method, e.path, e.body)
		if code != e.status {
			t.Errorf("%s: got status %d, want %d: %s", e.name, code, e.status, body)
			continue
		}
		if e.want == "*" {
			golden(t, e.name, scrub(body))
			continue
		}
		if got, want := canonical(scrub(body)), canonical(e.want); got != want {
			t.Errorf("%s:\n got %s\nwant %s", e.name, got, want)
		}
	}
}

// compact removes the spaces of JSON, which differ from build to build. Other texts stay.
func compact(text string) string {
	var b bytes.Buffer
	if json.Compact(&b, []byte(text)) != nil {
		return text
	}
	return b.String()
}

// golden compares an answer with its file, or writes the file if UPDATE_GOLDEN is set.
func golden(t *testing.T, name, got string) {
	t.Helper()
	slug := regexp.MustCompile(`[^A-Za-z0-9]+`)
	file := filepath.Join("testdata", "bodies", slug.ReplaceAllString(filepath.Base(t.Name()), "-"),
		slug.ReplaceAllString(name, "-")+".json")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Errorf("%s: %v (UPDATE_GOLDEN=1 writes it)", name, err)
		return
	}
	if w := strings.TrimSuffix(string(want), "\n"); compact(got) != compact(w) {
		t.Errorf("%s (UPDATE_GOLDEN=1 writes %s):\n got %s\nwant %s", name, file, got, w)
	}
}

// canonical makes JSON texts comparable.
func canonical(s string) string {
	var v any
	if json.Unmarshal([]byte(s), &v) != nil {
		return s
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(err)
	}
	return string(b)
}
