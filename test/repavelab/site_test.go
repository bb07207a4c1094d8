//go:build linux

package repavelab

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/localcluster"
	"github.com/holdfast-metal/holdfast/internal/secrets"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/test/bmclab"
	"github.com/holdfast-metal/holdfast/test/lab"
)

// configuration is that of the peers. Hosts are known only by the keys that their installers
// reported.
const configuration = `providers:
  dc:
    kind: datacenter
    bmc: {allow_http: true, settle: 2s, open_time: 1s, request_time: 5s, command_time: 10s, timeout: 30s}
    ssh: {host_keys: pinned}
%sreconcile_interval_seconds: 5
`

// patient has deadlines for several boxes without KVM.
const patient = `    netboot: {boot_seconds: 240, start_seconds: 240, silence_seconds: 180, disk_seconds: 600}
`

// site is three peers on the network of the boxes, and an operator.
type site struct {
	*localcluster.Cluster
	t      *testing.T
	dir    string
	binary string
	client *client.Client
	key    ssh.Signer // of the operator, which the machines accept
	files  map[string]string
}

func openSite(t *testing.T, bench *bmclab.Bench, l *bmclab.Lab, deadlines string) *site {
	t.Helper()
	s := &site{t: t, dir: l.Dir(), files: map[string]string{}}
	var err error
	if s.binary, err = bench.Holdfast(t.Context()); err != nil {
		t.Fatal(err)
	}
	sealed, err := secrets.NewKeyLine("k1")
	if err != nil {
		t.Fatal(err)
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	if s.key, err = ssh.NewSignerFromKey(private); err != nil {
		t.Fatal(err)
	}
	login, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	s.files["authorized"] = strings.TrimSpace(string(ssh.MarshalAuthorizedKey(login)))
	s.write("secrets.keys", sealed+"\n")
	s.write("peer.yaml", fmt.Sprintf(configuration, deadlines))
	s.write("id", string(pem.EncodeToMemory(block)))
	s.write("password", bmclab.Password)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	s.Cluster, err = localcluster.Start(ctx, localcluster.Config{
		Binary: s.binary, Dir: filepath.Join(s.dir, "peers"), RaftMultiplier: 5, Hosts: []string{peerHost(0), peerHost(1),
			peerHost(2)},
		Args: []string{"--config", s.files["peer.yaml"], "--secrets-key-file", s.files["secrets.keys"], "--netboot-dir",
			programDir},
		ArgsOf: func(i int) []string {
			args := []string{"--netboot-addr", net.JoinHostPort(peerHost(i), bootPort)}
			if ownDHCP() {
				args = append(args, "--netboot", bridge)
			}
			return args
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("stop the cluster: %v", err)
		}
		for _, found := range lab.Trouble(filepath.Join(s.dir, "peers")) {
			t.Error(found)
		}
	})
	if s.client, err = client.Dial(client.Config{Addrs: s.Addrs(), TLS: s.TLS(), Timeout: time.Minute}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.client.Close() })
	return s
}

func (s *site) write(name, text string) {
	s.t.Helper()
	s.files[name] = filepath.Join(s.dir, name)
	if err := os.WriteFile(s.files[name], []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// cli runs the command line as an administrator.
func (s *site) cli(args ...string) string {
	s.t.Helper()
	f := s.Files()
	cmd := exec.CommandContext(s.t.Context(), s.binary, append(args, "--addr", strings.Join(s.Addrs(), ","), "--ca",
		f.CA, "--cert", f.AdminCert, "--key", f.AdminKey, "--timeout", "2m")...)
	var output bytes.Buffer
	cmd.Stderr = &output
	out, err := cmd.Output()
	if err != nil {
		s.t.Fatalf("holdfast %v: %v: %s", args, err, output.Bytes())
	}
	return strings.TrimSpace(string(out))
}

// lose kills and restarts the leader, so that another one leads the next stage.
func (s *site) lose() string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 2*time.Minute)
	defer cancel()
	p, err := s.Leader(ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := p.Kill(); err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.Leader(ctx); err != nil { // the others continue without it
		s.t.Fatal(err)
	}
	if err := p.Start(ctx); err != nil {
		s.t.Fatal(err)
	}
	return p.ID
}

func (s *site) machine(id string) *holdfastv1.Machine {
	s.t.Helper()
	m, err := s.client.Machines().GetMachine(s.t.Context(), &holdfastv1.GetMachineRequest{MachineId: id})
	if err != nil {
		s.t.Fatal(err)
	}
	return m
}

// log returns the log of a run.
func (s *site) log(id string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var b bytes.Buffer
	if err := s.client.ReadLogs(ctx, id, 0, func(l *holdfastv1.LogChunk) error {
		fmt.Fprintf(&b, "%s %s: %s", l.GetTs().AsTime().Format("15:04:05.000"), l.GetStream(), l.GetData())
		return nil
	}); err != nil {
		fmt.Fprintf(&b, "(%v)", err)
	}
	return b.String()
}

// on runs a command as a user on an installed machine, if the host presents one of the keys that
// its installer reported.
func (s *site) on(host, user string, keys []string, command string) (string, error) {
	config := &ssh.ClientConfig{User: user, Auth: []ssh.AuthMethod{ssh.PublicKeys(s.key)}, Timeout: 20 * time.Second,
		HostKeyAlgorithms: []string{ssh.KeyAlgoED25519},
		HostKeyCallback: func(_ string, _ net.Addr, shown ssh.PublicKey) error {
			for _, line := range keys {
				if k, _, _, _, err := ssh.ParseAuthorizedKey([]byte(line)); err == nil &&
					bytes.Equal(k.Marshal(), shown.Marshal()) {
					return nil
				}
			}
			return fmt.Errorf("got host key %s, want one of %q", ssh.FingerprintSHA256(shown), keys)
		}}
	c, err := ssh.Dial("tcp", net.JoinHostPort(host, "22"), config)
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Close() }()
	session, err := c.NewSession()
	if err != nil {
		return "", err
	}
	defer func() { _ = session.Close() }()
	out, err := session.CombinedOutput(command)
	return strings.TrimSpace(string(out)), err
}
