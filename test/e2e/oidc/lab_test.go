package oidc

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
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

// lab is a peer with TLS whose people sign in with the provider.
type lab struct {
	*testing.T  // of the current scene
	dir, binary string
	grpc, home  string
	web         *http.Transport
	idp         *provider
}

// newLab starts a provider and a peer. If one is true, the dashboard and the command line are one
// public client, whose access tokens are not for the cluster.
func newLab(t *testing.T, one bool) *lab {
	t.Helper()
	if os.Getenv("E2E_OIDC") == "" {
		t.Skip("downloads an OpenID provider: run make e2e-oidc, or set E2E_OIDC=1")
	}
	l := &lab{T: t, dir: t.TempDir(), grpc: freeAddr(t), home: "https://" + freeAddr(t)}
	l.binary = os.Getenv("E2E_BINARY")
	if l.binary == "" {
		l.binary = l.path("holdfast")
		out, err := exec.CommandContext(t.Context(), "go", "-C", "../../..", "build", "-buildvcs=false", "-o", l.binary,
			"./cmd/holdfast").CombinedOutput()
		if err != nil {
			t.Fatalf("build: %v\n%s", err, out)
		}
	}
	l.idp = newProvider(t, l.home+"/ui/signin/callback", one)
	l.ok("tls", "ca", "create", "--cluster", "e2e")
	l.ok("tls", "cert", "create", "--peer", "n1", "--host", "127.0.0.1")
	l.ok("gossip", "keygen", "--out", "gossip.key")
	l.ok("secret", "keygen", "--out", "secrets.keys")
	l.write("client-secret", clientSecret)
	clients := fmt.Sprintf("audience: %s, client_id: %s, client_secret_file: %s, cli_client_id: %s", audience, dashboard,
		l.path("client-secret"), commandLine)
	if one {
		clients = fmt.Sprintf("audience: %s, client_id: %[1]s", commandLine)
	}
	l.write("peer.yaml", fmt.Sprintf("oidc_issuers: [{issuer: %q, user_claim: preferred_username, roles_claim: groups, "+
		"roles: {dc-ops: operator}, display_name: Example SSO, %s}]\n", l.idp.url, clients))
	l.start()
	l.ok("context", "set", "e2e", "--addr", l.grpc, "--ca", l.path("ca.pem"))
	return l
}

// scene runs a subtest, in which commands of the lab may fail.
func (l *lab) scene(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		outer := l.T
		defer func() { l.T = outer }()
		l.T = t
		f(t)
	})
}

// start starts the peer, which ends with the test.
func (l *lab) start() {
	l.Helper()
	log, err := os.Create(l.path("n1.log"))
	if err != nil {
		l.Fatal(err)
	}
	cmd := l.command("server", "--config", "peer.yaml", "--node-id", "n1", "--data-dir", "n1", "--grpc-addr", l.grpc,
		"--http-addr", strings.TrimPrefix(l.home, "https://"), "--raft-addr", freeAddr(l.T), "--gossip-addr", freeAddr(l.T),
		"--bootstrap-expect", "1", "--tls-ca", "ca.pem", "--tls-cert", "n1.pem", "--tls-key", "n1-key.pem",
		"--secrets-key-file", "secrets.keys", "--gossip-key-file", "gossip.key")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = log.Close()
		if text, err := os.ReadFile(log.Name()); err == nil && l.Failed() {
			l.Logf("end of the log of the peer:\n%s", text[max(0, len(text)-3000):])
		}
	})
	pem, err := os.ReadFile(l.path("ca.pem"))
	if err != nil {
		l.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	l.web = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}
	l.Cleanup(l.web.CloseIdleConnections)
	until(l.T, "the peer to be ready", func() bool {
		resp, err := (&http.Client{Transport: l.web, Timeout: time.Second}).Get(l.home + "/readyz")
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

// command returns a command of a person, with nothing of the environment of the test.
func (l *lab) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(l.Context(), l.binary, args...)
	cmd.Dir, cmd.Env = l.dir, []string{"HOME=" + l.dir, "PATH=" + os.Getenv("PATH")}
	return cmd
}

// run runs a command, and returns its output and exit code.
func (l *lab) run(args ...string) (output string, code int) {
	l.Helper()
	out, err := l.command(args...).CombinedOutput()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return string(out), exit.ExitCode()
	} else if err != nil {
		l.Fatal(err)
	}
	return string(out), 0
}

// ok returns the output of a command that must succeed.
func (l *lab) ok(args ...string) string {
	l.Helper()
	out, code := l.run(args...)
	if code != 0 {
		l.Fatalf("holdfast %s: exit code %d\n%s", strings.Join(args, " "), code, out)
	}
	return out
}

func (l *lab) path(name string) string { return filepath.Join(l.dir, name) }

func (l *lab) write(name, text string) {
	l.Helper()
	if err := os.WriteFile(l.path(name), []byte(text), 0o600); err != nil {
		l.Fatal(err)
	}
}

// until polls until ok returns true.
func until(t *testing.T, name string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("wait for %s: not within 20 s", name)
		}
		time.Sleep(50 * time.Millisecond) // sleep: between polls of another process
	}
}

func freeAddr(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	return ln.Addr().String()
}
