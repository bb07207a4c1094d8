package ui

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// lab is three processes with TLS, and a fleet of fake machines in another one.
type lab struct {
	*testing.T  // of the current scene
	whole       *testing.T
	dir, binary string
	peers       []*peer
	env         []string // of the command line, as an admin
	web         *http.Client
}

type peer struct {
	id                       string
	grpc, http, raft, gossip int
	cmd                      *exec.Cmd
}

func (p *peer) url() string { return fmt.Sprintf("https://127.0.0.1:%d", p.http) }

// newLab starts three peers, and a fleet with additional flags.
func newLab(t *testing.T, fleet ...string) *lab {
	t.Helper()
	l := &lab{T: t, whole: t, dir: t.TempDir()}
	l.binary = filepath.Join(l.dir, "holdfast")
	if built := os.Getenv("E2E_UI_BINARY"); built != "" {
		l.binary = built
	} else {
		l.command("go", "-C", "../../..", "build", "-buildvcs=false", "-o", l.binary, "./cmd/holdfast")
	}
	l.holdfast("tls", "ca", "create", "--cluster", "e2e")
	l.holdfast("tls", "cert", "create", "--client", "--name", "admin", "--role", "admin")
	l.holdfast("gossip", "keygen", "--out", "gossip.key")
	fake := freePort(t)
	if len(fleet) == 0 {
		fleet = []string{"--latency", "300ms"}
	}
	l.start("fake", append([]string{"fake-hardware", "--addr", fmt.Sprintf("127.0.0.1:%d", fake)}, fleet...)...)
	l.write("peer.yaml", fmt.Sprintf("providers: {fake: {kind: fake, endpoint: \"http://127.0.0.1:%d\"}}\n", fake))
	var join, addrs []string
	for i := range 3 {
		p := &peer{id: fmt.Sprintf("n%d", i+1), grpc: freePort(t), http: freePort(t), raft: freePort(t), gossip: freePort(t)}
		l.peers, join, addrs = append(l.peers, p), append(join, fmt.Sprintf("127.0.0.1:%d", p.gossip)), append(addrs,
			fmt.Sprintf("127.0.0.1:%d", p.grpc))
		l.holdfast("tls", "cert", "create", "--peer", p.id, "--host", "127.0.0.1")
	}
	for _, p := range l.peers {
		l.run(p, strings.Join(join, ","))
	}
	l.env = []string{"HOLDFAST_ADDR=" + strings.Join(addrs, ","), "HOLDFAST_CA=" + l.path("ca.pem"), "HOLDFAST_CERT=" +
		l.path("admin.pem"), "HOLDFAST_KEY=" + l.path("admin-key.pem")}
	l.web = l.client()
	for _, p := range l.peers {
		l.until("peer "+p.id+" to be ready", func() bool { return l.ready(p) })
	}
	return l
}

// run starts or restarts a peer.
func (l *lab) run(p *peer, join string) {
	at := func(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
	p.cmd = l.start(p.id, "server", "--config", "peer.yaml", "--node-id", p.id, "--data-dir", p.id, "--grpc-addr",
		at(p.grpc), "--http-addr", at(p.http), "--raft-addr", at(p.raft),
		"--gossip-addr", at(p.gossip), "--join", join, "--bootstrap-expect", "3", "--tls-ca", "ca.pem", "--tls-cert", p.id+
			".pem", "--tls-key", p.id+"-key.pem", "--gossip-key-file", "gossip.key")
}

func (l *lab) join() string {
	var all []string
	for _, p := range l.peers {
		all = append(all, fmt.Sprintf("127.0.0.1:%d", p.gossip))
	}
	return strings.Join(all, ",")
}

// kill kills a peer.
func (l *lab) kill(p *peer) {
	l.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		l.Fatal(err)
	}
	_ = p.cmd.Wait() // killed
}

func (l *lab) ready(p *peer) bool {
	resp, err := l.web.Get(p.url() + "/readyz")
	if err != nil {
		return false
	}
	defer func() { _ = resp.Body.Close() }()
	return resp.StatusCode == http.StatusOK
}

func (l *lab) client() *http.Client {
	pem, err := os.ReadFile(l.path("ca.pem"))
	if err != nil {
		l.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	return &http.Client{Timeout: 2 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}}
}

// until polls until ok returns true.
func (l *lab) until(name string, ok func() bool) {
	l.Helper()
	for deadline := time.Now().Add(90 * time.Second); !ok(); {
		if time.Now().After(deadline) {
			l.Fatalf("wait for %s: timed out after 90 s", name)
		}
		time.Sleep(100 * time.Millisecond) // sleep: between polls of another process
	}
}

func (l *lab) path(name string) string { return filepath.Join(l.dir, name) }

func (l *lab) write(name, text string) {
	l.Helper()
	if err := os.WriteFile(l.path(name), []byte(text), 0o600); err != nil {
		l.Fatal(err)
	}
}

// start starts the binary, which ends with the test.
func (l *lab) start(name string, args ...string) *exec.Cmd {
	l.Helper()
	log, err := os.OpenFile(l.path(name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		l.Fatal(err)
	}
	cmd := exec.Command(l.binary, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = l.dir, log, log
	if err := cmd.Start(); err != nil {
		l.Fatal(err)
	}
	l.whole.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = log.Close()
		if text, err := os.ReadFile(l.path(name + ".log")); err == nil && l.whole.Failed() {
			l.whole.Logf("end of the log of %s:\n%s", name, text[max(0, len(text)-1500):])
		}
	})
	return cmd
}

// holdfast runs a command and returns its output.
func (l *lab) holdfast(args ...string) string {
	l.Helper()
	return l.command(l.binary, args...)
}

func (l *lab) command(name string, args ...string) string {
	l.Helper()
	ctx, cancel := context.WithTimeout(l.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	if name == l.binary {
		cmd.Dir, cmd.Env = l.dir, append(os.Environ(), l.env...)
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		l.Fatalf("%s %s: %v\n%s", filepath.Base(name), strings.Join(args, " "), err, stderr.String())
	}
	return strings.TrimSpace(string(out))
}

// leader returns the leader.
func (l *lab) leader() *peer {
	l.Helper()
	var st struct{ Leader string }
	l.until("a leader", func() bool {
		return json.Unmarshal([]byte(l.holdfast("cluster", "status", "-o", "json")), &st) == nil && st.Leader != ""
	})
	for _, p := range l.peers {
		if p.id == st.Leader {
			return p
		}
	}
	l.Fatalf("got unknown leader %q", st.Leader)
	return nil
}

func freePort(t *testing.T) int {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	return ln.Addr().(*net.TCPAddr).Port
}
