package sshexec_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/holdfast-metal/holdfast/providers"
	sshexec "github.com/holdfast-metal/holdfast/providers/ssh"
)

// inspect makes a read-only call.
func inspect(t *testing.T, p *sshexec.Provider, m providers.Machine) error {
	t.Helper()
	_, err := p.CommandStatus(t.Context(), m, "r-1-read-1", 0)
	return err
}

func wantClass(t *testing.T, err error, class providers.Class, words ...string) {
	t.Helper()
	if err == nil || providers.ClassOf(err) != class {
		t.Fatalf("got %v (class %s), want class %s", err, providers.ClassOf(err), class)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("got %v, want %q in it", err, w)
		}
	}
}

func TestHostKeys(t *testing.T) {
	s := startSSHD(t)
	right := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(s.hostKey)))
	other, _ := newKey(t)
	wrong := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(other.PublicKey())))
	with := func(policy string, pinned ...string) (*sshexec.Provider, *sshexec.PinnedInMemory) {
		known := map[string][]string{}
		if len(pinned) > 0 {
			known["m-1"] = pinned
		}
		keys := sshexec.NewPinnedInMemory(known)
		cfg := s.config()
		cfg.HostKeys = policy
		return newProvider(t, cfg, logins{"key": s.login}, keys), keys
	}

	p, keys := with(sshexec.FirstSight)
	if err := inspect(t, p, s.machine()); err != nil {
		t.Fatal(err)
	}
	if got, _ := keys.Get(t.Context(), "m-1"); len(got) != 1 || got[0] != right {
		t.Errorf("got pinned key %q, want %q", got, right)
	}
	p, _ = with(sshexec.PinnedOnly, wrong, right)
	if err := inspect(t, p, s.machine()); err != nil {
		t.Errorf("connect with one of two pinned keys: %v", err)
	}
	for _, policy := range []string{sshexec.FirstSight, sshexec.PinnedOnly} {
		p, keys = with(policy, wrong)
		err := inspect(t, p, s.machine())
		wantClass(t, err, providers.Auth, "m-1", s.addr, ssh.FingerprintSHA256(s.hostKey),
			ssh.FingerprintSHA256(other.PublicKey()), "pin the new key")
		var he *sshexec.HostKeyError
		if !errors.As(err, &he) || he.Seen != right || len(he.Wanted) != 1 || he.Wanted[0] != wrong {
			t.Errorf("got %+v", he)
		}
		if got, _ := keys.Get(t.Context(), "m-1"); len(got) != 1 || got[0] != wrong {
			t.Errorf("pinned key after a refusal: got %q, want %q", got, wrong)
		}
		if f, err := p.Inspect(t.Context(), s.machine()); err != nil || f.Reachable ||
			f.ReachableReason != "HostKeyMismatch" {
			t.Errorf("got %+v, %v", f, err)
		}
	}
	p, keys = with(sshexec.PinnedOnly)
	wantClass(t, inspect(t, p, s.machine()), providers.Auth, "none is pinned", sshexec.FirstSight)
	if got, _ := keys.Get(t.Context(), "m-1"); len(got) != 0 {
		t.Errorf("got pinned key %q, want none", got)
	}
}

// TestPinningNeedsLogin checks that a host that refuses the login is not pinned, because it may
// be another host.
func TestPinningNeedsLogin(t *testing.T) {
	s := startSSHD(t)
	keys := sshexec.NewPinnedInMemory(nil)
	_, stranger := newKey(t)
	p := newProvider(t, s.config(), logins{"key": {PrivateKey: stranger}}, keys)
	wantClass(t, inspect(t, p, s.machine()), providers.Auth, "refuses user root")
	if got, _ := keys.Get(t.Context(), "m-1"); len(got) != 0 {
		t.Errorf("got pinned key %q, want none", got)
	}
}

func TestCertificates(t *testing.T) {
	s := startSSHD(t)
	certified := func(ca ssh.Signer, until time.Time) sshexec.Login {
		signer, key := newKey(t)
		c := &ssh.Certificate{Key: signer.PublicKey(), CertType: ssh.UserCert, KeyId: "holdfast",
			ValidPrincipals: []string{"root"},
			ValidAfter:      uint64(time.Now().Add(-time.Hour).Unix()), ValidBefore: uint64(until.Unix())}
		if err := c.SignCert(rand.Reader, ca); err != nil {
			t.Fatal(err)
		}
		return sshexec.Login{PrivateKey: key, Certificate: ssh.MarshalAuthorizedKey(c)}
	}
	stranger, _ := newKey(t)
	soon, past := time.Now().Add(time.Hour), time.Now().Add(-time.Minute)
	bad := certified(s.ca, soon)
	bad.PrivateKey = s.login.PrivateKey
	plain := s.login
	plain.Certificate = ssh.MarshalAuthorizedKey(s.ca.PublicKey())
	for _, c := range []struct {
		name  string
		login sshexec.Login
		want  string
	}{
		{"good", certified(s.ca, soon), ""},
		{"expired", certified(s.ca, past), "expired at"},
		{"of another authority", certified(stranger, soon), "refuses user root"},
		{"of another key", bad, "does not match private_key"},
		{"no certificate", plain, "plain key"},
		{"nothing", sshexec.Login{}, "neither private_key nor password"},
		{"no key", sshexec.Login{PrivateKey: []byte("x")}, "read private_key"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newProvider(t, s.config(), logins{"key": c.login}, sshexec.NewPinnedInMemory(nil))
			err := inspect(t, p, s.machine())
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			wantClass(t, err, providers.Auth, c.want)
		})
	}
}

// TestRefusedLoginsStop checks that after two refusals no login is tried until the secret changes.
func TestRefusedLoginsStop(t *testing.T) {
	s := startSSHD(t)
	line := newProxy(t, s.addr)
	_, stranger := newKey(t)
	secrets := logins{"key": {PrivateKey: stranger}}
	p := newProvider(t, s.config(), secrets, sshexec.NewPinnedInMemory(nil))
	m := machineAt("m-1", line.addr)
	for range 5 {
		wantClass(t, inspect(t, p, m), providers.Auth)
	}
	if got := line.dials(); got != 2 {
		t.Errorf("got %d connections for five calls with a refused login, want 2", got)
	}
	wantClass(t, inspect(t, p, m), providers.Auth, "not tried", `change secret "key"`)
	secrets["key"] = s.login
	if err := inspect(t, p, m); err != nil {
		t.Errorf("call with another secret: %v", err)
	}
}

// TestOneConnection checks that calls share a connection, also concurrent ones.
func TestOneConnection(t *testing.T) {
	s := startSSHD(t)
	p := s.provider(t)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if err := inspect(t, p, s.machine()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := s.logins(t); got != 1 {
		t.Errorf("got %d logins for 20 calls, want 1", got)
	}
}

func TestIdleConnectionsAreClosed(t *testing.T) {
	s := startSSHD(t)
	line := newProxy(t, s.addr)
	p := s.provider(t, func(c *sshexec.Config) { c.Idle = sshexec.Duration(100 * time.Millisecond) })
	m := machineAt("m-1", line.addr)
	for i := range 2 {
		if err := inspect(t, p, m); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the end of an idle connection", func() bool { return p.Connections() == 0 })
		if got := line.dials(); got != i+1 {
			t.Fatalf("got %d connections, want %d", got, i+1)
		}
	}
}

// TestDeadPeer checks that the connection of a silent host is closed, and that a call without a
// deadline ends.
func TestDeadPeer(t *testing.T) {
	s := startSSHD(t)
	line := newProxy(t, s.addr)
	p := s.provider(t, func(c *sshexec.Config) {
		// sshd on a busy machine must not count as dead.
		c.KeepAlive, c.DeadAfter = sshexec.Duration(100*time.Millisecond), sshexec.Duration(2*time.Second)
	})
	m := machineAt("m-1", line.addr)
	if err := inspect(t, p, m); err != nil {
		t.Fatal(err)
	}
	line.freeze()
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
	defer stop()
	started := time.Now()
	_, err := p.CommandStatus(ctx, m, "r-1-read-1", 0)
	if err == nil || time.Since(started) > 15*time.Second {
		t.Fatalf("got %v after %v, want an error in time", err, time.Since(started))
	}
	eventually(t, "the end of the dead connection", func() bool { return p.Connections() == 0 })
	line.thaw()
	if err := inspect(t, p, m); err != nil {
		t.Errorf("call after the host answers again: %v", err)
	}
}

// TestHangEndsWithItsContext covers every point in the life of a connection.
func TestHangEndsWithItsContext(t *testing.T) {
	s := startSSHD(t)
	for try := range 15 {
		line := newProxy(t, s.addr)
		m := machineAt("m-1", line.addr)
		p := s.provider(t)
		freeze := time.AfterFunc(time.Duration(try)*5*time.Millisecond, line.freeze)
		deadline := time.Now().Add(300 * time.Millisecond)
		ctx, stop := context.WithDeadline(t.Context(), deadline)
		var err error
		for err == nil {
			_, err = p.CommandStatus(ctx, m, "r-1-read-1", 0)
		}
		stop()
		freeze.Stop()
		if late := time.Since(deadline); late > 5*time.Second {
			t.Errorf("got an end %v after the deadline", late)
		}
		wantClass(t, err, providers.Timeout)
		line.thaw()
		if err := inspect(t, p, m); err != nil {
			t.Errorf("next call: %v", err)
		}
	}
}

// TestDeadConnectionIsReplaced checks this between two calls, without an error.
func TestDeadConnectionIsReplaced(t *testing.T) {
	s := startSSHD(t)
	line := newProxy(t, s.addr)
	p, m := s.provider(t), machineAt("m-1", line.addr)
	for i := range 10 {
		if err := p.StartCommand(t.Context(), providers.Op{}, m, fmt.Sprintf("r-%s-%d", rand.Text()[:6], i),
			providers.Command{Path: "true"}); err != nil {
			t.Fatal(err)
		}
		line.cut()
	}
}

func TestJumpHosts(t *testing.T) {
	first, second, target := startSSHD(t), startSSHD(t), startSSHD(t)
	cfg := target.config()
	cfg.Jump = []sshexec.Jump{{Endpoint: first.addr, CredentialsRef: "first"},
		{Endpoint: second.addr, CredentialsRef: "second"}}
	cfg.JumpAllow = []string{"127.0.0.1"}
	// The second machine is used before the jump hosts are closed as idle, also on a busy machine.
	cfg.Idle = sshexec.Duration(3 * time.Second)
	keys := sshexec.NewPinnedInMemory(nil)
	p := newProvider(t, cfg, logins{"key": target.login, "first": first.login, "second": second.login}, keys)
	for _, id := range []string{"m-1", "m-2"} {
		if err := inspect(t, p, machineAt(id, target.addr)); err != nil {
			t.Fatal(err)
		}
	}
	if a, b, c := first.logins(t), second.logins(t), target.logins(t); a != 1 || b != 1 || c != 2 {
		t.Errorf("got %d, %d and %d logins, want 1, 1 and 2", a, b, c)
	}
	for host, s := range map[string]*sshd{"jump/" + first.addr: first, "jump/" + second.addr: second, "m-1": target} {
		if got, _ := keys.Get(t.Context(), host); len(got) != 1 ||
			got[0] != strings.TrimSpace(string(ssh.MarshalAuthorizedKey(s.hostKey))) {
			t.Errorf("pinned key of %s: got %q", host, got)
		}
	}
	eventually(t, "the end of all connections", func() bool { return p.Connections() == 0 })

	impostor := sshexec.NewPinnedInMemory(map[string][]string{"jump/" +
		second.addr: {string(ssh.MarshalAuthorizedKey(first.hostKey))}})
	p = newProvider(t, cfg, logins{"key": target.login, "first": first.login, "second": second.login}, impostor)
	wantClass(t, inspect(t, p, machineAt("m-1", target.addr)), providers.Auth, "jump/"+second.addr,
		"host_keys of the jump host")

	// The jump host was reinstalled. The configuration takes precedence over the pinned key.
	cfg.Jump[0].HostKeys, cfg.Jump[1].HostKeys = []string{string(ssh.MarshalAuthorizedKey(first.hostKey))},
		[]string{string(ssh.MarshalAuthorizedKey(second.hostKey))}
	cfg.HostKeys = sshexec.PinnedOnly
	impostor = sshexec.NewPinnedInMemory(map[string][]string{"jump/" +
		second.addr: {string(ssh.MarshalAuthorizedKey(first.hostKey))},
		"m-1": {string(ssh.MarshalAuthorizedKey(target.hostKey))}})
	p = newProvider(t, cfg, logins{"key": target.login, "first": first.login, "second": second.login}, impostor)
	if err := inspect(t, p, machineAt("m-1", target.addr)); err != nil {
		t.Error(err)
	}
	cfg.Jump[0].HostKeys = []string{"ssh-ed25519"}
	if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), "jump[0]: host_keys[0] is not a public key") {
		t.Errorf("invalid key: got %v", err)
	}
}

// TestWhatIsBehindJumpHosts checks which endpoints a jump host is asked to connect to.
func TestWhatIsBehindJumpHosts(t *testing.T) {
	jump, target := startSSHD(t), startSSHD(t)
	_, port, _ := net.SplitHostPort(target.addr)
	for _, tt := range []struct {
		host, allow string
		refused     string // in the error; empty: the machine is reached
	}{
		{"127.0.0.1", "127.0.0.0/8", ""}, {"localhost", "localhost", ""}, {"LocalHost", "*.example localhost.", ""},
		{"127.0.0.1", "", "the jump host itself"}, {"127.1", "", "the jump host itself"},
		{"2130706433", "localhost", "the jump host itself"}, {"169.254.169.254", "127.0.0.1", "jump_allow"},
		{"::1", "", "the jump host itself"}, {"64:ff9b::a9fe:a9fe", "", "the jump host itself"},
		{"localhost", "", "no peer can check where it leads"}, {"localhost", "127.0.0.1", "jump_allow"},
		{"example", "*.example", "jump_allow"}, {"evilexample", "*.example", "jump_allow"},
	} {
		cfg := target.config()
		cfg.Jump = []sshexec.Jump{{Endpoint: jump.addr, CredentialsRef: "jump"}}
		cfg.JumpAllow = strings.Fields(tt.allow)
		if err := cfg.Validate(); err != nil {
			t.Fatal(err)
		}
		p := newProvider(t, cfg, logins{"key": target.login, "jump": jump.login}, sshexec.NewPinnedInMemory(nil))
		err := inspect(t, p, machineAt("m-1", net.JoinHostPort(tt.host, port)))
		if tt.refused == "" {
			if err != nil {
				t.Errorf("%s with %q: got %v", tt.host, tt.allow, err)
			}
			continue
		}
		wantClass(t, err, providers.Unsupported, tt.refused)
	}
	for _, bad := range []string{"", "*", "*.", "*x.example", "a b", "10.0.0.0/33", "a@b", "x:22"} {
		cfg := sshexec.Config{JumpAllow: []string{bad}}
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), "jump_allow[0]") {
			t.Errorf("%q: got %v", bad, err)
		}
	}
}

// TestPasswordIsSentOnce uses a server that requests the password in both ways, and refuses it.
func TestPasswordIsSentOnce(t *testing.T) {
	host, _ := newKey(t)
	var mu sync.Mutex
	var sent []string
	got := func(p string) error {
		mu.Lock()
		defer mu.Unlock()
		sent = append(sent, p)
		return errors.New("no")
	}
	cfg := &ssh.ServerConfig{
		PasswordCallback: func(_ ssh.ConnMetadata, p []byte) (*ssh.Permissions, error) { return nil, got(string(p)) },
		KeyboardInteractiveCallback: func(_ ssh.ConnMetadata, ask ssh.KeyboardInteractiveChallenge) (*ssh.Permissions,
			error) {
			a, err := ask("", "", []string{"Password: "}, []bool{false})
			if err != nil || len(a) != 1 {
				return nil, errors.New("no answer")
			}
			return nil, got(a[0])
		},
	}
	cfg.AddHostKey(host)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _, _, _ = ssh.NewServerConn(c, cfg) // refuses the login
			c.Close()
		}
	})
	t.Cleanup(func() { l.Close(); wg.Wait() })
	p := newProvider(t, sshexec.Config{}, logins{"key": {Username: "admin", Password: "hunter2"}},
		sshexec.NewPinnedInMemory(nil))
	err = inspect(t, p, machineAt("m-1", l.Addr().String()))
	wantClass(t, err, providers.Auth, "admin")
	if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got the password in %v", err)
	}
	if mu.Lock(); len(sent) != 1 || sent[0] != "hunter2" {
		t.Errorf("got passwords %q, want one", sent)
	}
	mu.Unlock()

	// The default secret of machines without one: any user may register a machine with any address.
	// A key is tried there, but a password is not sent.
	_, key := newKey(t)
	sent = nil
	for name, common := range map[string]sshexec.Login{"with a key": {Username: "admin", PrivateKey: key,
		Password: "hunter2"}, "without": {Username: "admin", Password: "hunter2"}} {
		p := newProvider(t, sshexec.Config{CredentialsRef: "key"}, logins{"key": common}, sshexec.NewPinnedInMemory(nil))
		m := machineAt("m-1", l.Addr().String())
		m.Spec.SshCredentialsRef = ""
		wantClass(t, inspect(t, p, m), providers.Auth)
		if mu.Lock(); len(sent) != 0 {
			t.Errorf("%s: got %q sent to a machine without a secret", name, sent)
		}
		mu.Unlock()
	}
}

func TestSecretsDoNotPrint(t *testing.T) {
	l := sshexec.Login{Username: "admin", PrivateKey: []byte("hunter1"), Certificate: []byte("hunter2"),
		Password: "hunter3"}
	if s := fmt.Sprintf("%v %+v %#v %s", l, l, l, l); strings.Contains(s, "hunter") || !strings.Contains(s, "admin") {
		t.Errorf("got %s", s)
	}
	if s := l.LogValue().String(); strings.Contains(s, "hunter") {
		t.Errorf("got %s", s)
	}
}

func TestUnusableMachines(t *testing.T) {
	p := newProvider(t, sshexec.Config{}, logins{}, sshexec.NewPinnedInMemory(nil))
	wantClass(t, inspect(t, p, machineAt("m-1", "")), providers.Unsupported, "m-1", "is empty")
	wantClass(t, inspect(t, p, machineAt("m-1", "127.0.0.1:1")), providers.Auth, `secret "key"`)
	p.Close()
	wantClass(t, inspect(t, p, machineAt("m-1", "127.0.0.1:1")), providers.Transient, "closed")
}
