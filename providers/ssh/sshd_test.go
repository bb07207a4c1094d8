package sshexec_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/holdfast-metal/holdfast/cluster/freeport"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers"
	sshexec "github.com/holdfast-metal/holdfast/providers/ssh"
)

// sshd is a real OpenSSH server on this machine without systemd, so that commands get their own
// supervisor.
type sshd struct {
	addr    string
	hostKey ssh.PublicKey
	login   sshexec.Login
	ca      ssh.Signer // signs accepted certificates
	state   string     // the provider's directory on hosts
	dir     string
	cmd     *exec.Cmd
}

// logins is a Credentials with one login per name.
type logins map[string]sshexec.Login

func (l logins) Login(_ context.Context, ref string) (sshexec.Login, error) {
	got, ok := l[ref]
	if !ok {
		return sshexec.Login{}, fmt.Errorf("secret %q not found", ref)
	}
	return got, nil
}

func newKey(t *testing.T) (ssh.Signer, []byte) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(key, "test")
	if err != nil {
		t.Fatal(err)
	}
	return s, pem.EncodeToMemory(block)
}

// startSSHD starts a server, and stops it with the test. It skips the test if that is not possible.
func startSSHD(t *testing.T, more ...string) *sshd {
	t.Helper()
	program := "/usr/sbin/sshd"
	if _, err := os.Stat(program); err != nil || os.Geteuid() != 0 {
		t.Skipf("NOT TESTED against a real sshd: needs root and %s (Debian: apt-get install openssh-server)", program)
	}
	if _, err := os.Stat("/run/systemd/system"); err == nil {
		t.Skip("NOT TESTED without systemd: this machine has systemd; make e2e-ssh tests that in a container")
	}
	s := &sshd{dir: t.TempDir(), state: hostDir(t)}
	// sshd requires safe parent directories, which other users must be able to traverse.
	for dir := s.dir; dir != "/"; dir = filepath.Dir(dir) {
		if i, err := os.Stat(dir); err == nil && i.Mode().Perm()&0o055 != 0o055 && strings.HasPrefix(dir, os.TempDir()+"/") {
			_ = os.Chmod(dir, 0o755) // the tests of other users would fail
		}
	}
	if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
		t.Fatal(err)
	}
	host, hostPEM := newKey(t)
	user, userPEM := newKey(t)
	ca, _ := newKey(t)
	s.hostKey, s.ca, s.login = host.PublicKey(), ca, sshexec.Login{PrivateKey: userPEM}
	write := func(name string, data []byte) string {
		path := filepath.Join(s.dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	// No outgoing connection gets this port while sshd starts, not even the one that checks whether
	// it is up.
	ports, err := freeport.Claim(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ports.Release() })
	s.addr = ports.Address("127.0.0.1")
	_, port, _ := net.SplitHostPort(s.addr)
	config := strings.Join(append([]string{
		"ListenAddress 127.0.0.1", "Port " + port, "HostKey " + write("host", hostPEM),
		"AuthorizedKeysFile " + write("authorized", ssh.MarshalAuthorizedKey(user.PublicKey())),
		"TrustedUserCAKeys " + write("ca", ssh.MarshalAuthorizedKey(ca.PublicKey())),
		"PidFile none", "StrictModes no", "UsePAM no", "PasswordAuthentication no", "PermitRootLogin yes", "LogLevel VERBOSE",
		"AllowTcpForwarding yes", "MaxStartups 100:30:200", "UseDNS no",
	}, more...), "\n") + "\n"
	s.start(t, write("config", []byte(config)))
	return s
}

func (s *sshd) start(t *testing.T, config string) {
	t.Helper()
	log, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	s.cmd = exec.Command("/usr/sbin/sshd", "-D", "-e", "-f", config)
	s.cmd.Stderr = log
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		log.Close()
	})
	for deadline := time.Now().Add(time.Minute); ; {
		c, err := net.Dial("tcp", s.addr)
		if err == nil {
			c.Close()
			return
		}
		if time.Now().After(deadline) {
			output, _ := os.ReadFile(filepath.Join(s.dir, "log"))
			t.Fatalf("wait for sshd: %v; output: %s", err, output)
		}
		time.Sleep(20 * time.Millisecond) // sleep: between two connects, with a deadline
	}
}

// logins returns the number of accepted sessions.
func (s *sshd) logins(t *testing.T) int {
	t.Helper()
	output, err := os.ReadFile(filepath.Join(s.dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Count(output, []byte("Accepted publickey for "))
}

// hostDir returns a directory of the host. A command may still write there for a moment after the
// test, so it is removed once that ends.
func hostDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "holdfast-host-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		eventually(t, "the end of all that writes to "+dir, func() bool { return os.RemoveAll(dir) == nil })
	})
	if err := os.Chmod(dir, 0o755); err != nil { // for other users
		t.Fatal(err)
	}
	return dir
}

func (s *sshd) config() sshexec.Config {
	return sshexec.Config{StateDir: s.state, KillGrace: sshexec.Duration(3 * time.Second)}
}

// machine returns this machine, reached over the server.
func (s *sshd) machine() providers.Machine { return machineAt("m-1", s.addr) }

func machineAt(id, addr string) providers.Machine {
	return &holdfastv1.Machine{MachineId: id, Spec: &holdfastv1.MachineSpec{SshEndpoint: addr, SshCredentialsRef: "key"}}
}

// provider returns a provider with the server's key, and closes it with the test.
func (s *sshd) provider(t *testing.T, change ...func(*sshexec.Config)) *sshexec.Provider {
	t.Helper()
	cfg := s.config()
	for _, c := range change {
		c(&cfg)
	}
	return newProvider(t, cfg, logins{"key": s.login}, sshexec.NewPinnedInMemory(nil))
}

func newProvider(t *testing.T, cfg sshexec.Config, c sshexec.Credentials, keys sshexec.HostKeys) *sshexec.Provider {
	t.Helper()
	p, err := sshexec.New(cfg, c, keys, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}
