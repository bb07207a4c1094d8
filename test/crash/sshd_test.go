package crash

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/seal"
	"github.com/holdfast-metal/holdfast/test/crash/harness"
)

// host is a real OpenSSH server on this machine, as the user who runs the tests, and what peers need to log in.
type host struct {
	addr, key, dir string
	private        string // PEM
}

// startHost starts a server on loopback, and stops it with the test. It skips the test where there is none to start.
func startHost(t *testing.T) host {
	t.Helper()
	const program = "/usr/sbin/sshd"
	if _, err := os.Stat(program); err != nil {
		t.Skipf("NOT TESTED against a real sshd: there is no %s (Debian: apt-get install openssh-server)", program)
	}
	if _, err := os.Stat("/run/systemd/system"); err == nil && os.Geteuid() != 0 {
		t.Skip("NOT TESTED: on a machine with systemd commands run as its units, and that takes root")
	}
	h := host{dir: t.TempDir()}
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(h.dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	newKey := func() (public, private string) {
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
		return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(s.PublicKey()))), string(pem.EncodeToMemory(block))
	}
	hostKey, hostPrivate := newKey()
	login, private := newKey()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h.addr, h.key, h.private = l.Addr().String(), hostKey, private
	l.Close()
	_, port, _ := net.SplitHostPort(h.addr)
	config := []string{"ListenAddress 127.0.0.1", "Port " + port, "HostKey " + write("host", hostPrivate, 0o600), "AuthorizedKeysFile " + write("authorized", login, 0o600),
		"PidFile none", "StrictModes no", "UsePAM no", "PasswordAuthentication no", "PermitRootLogin yes", "UseDNS no"}
	if os.Geteuid() == 0 {
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			t.Fatal(err)
		}
	} else { // whoever logs in is to be root, or may become it: here he may do all that the test needs
		write("sudo", "#!/bin/sh\nshift\nexec \"$@\"\n", 0o755)
		config = append(config, "SetEnv PATH="+h.dir+":"+os.Getenv("PATH"))
	}
	log, err := os.Create(filepath.Join(h.dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "-D", "-e", "-f", write("config", strings.Join(config, "\n")+"\n", 0o600))
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		log.Close()
	})
	harness.Until(t, "sshd to answer", func() (bool, any) {
		c, err := net.Dial("tcp", h.addr)
		if err == nil {
			c.Close()
		}
		return err == nil, err
	})
	return h
}

// A command on a real host survives the leader that started it, and the one that took over from that: it is one process from start to
// end, and what it prints is on record in full, each line once. HOLDFAST_SLEEP=60s makes it last as long as you like.
func TestCommandOnARealHostSurvivesTwoLeaders(t *testing.T) {
	long(t)
	lasts := 20 * time.Second
	if s := os.Getenv("HOLDFAST_SLEEP"); s != "" {
		var err error
		if lasts, err = time.ParseDuration(s); err != nil {
			t.Fatal(err)
		}
	}
	h := startHost(t)
	key, err := seal.NewKeyLine("k1")
	if err != nil {
		t.Fatal(err)
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{
		"keys": key + "\n",
		"peer.yaml": "providers:\n  hosts:\n    kind: ssh\n    host_keys: pinned\n    keepalive: 1s\n    dead_after: 3s\n    state_dir: " +
			filepath.Join(h.dir, "state") + "\n",
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(h.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := bench.Cluster(t, harness.Options{RaftMultiplier: 4, Args: []string{"--config", filepath.Join(h.dir, "peer.yaml"), "--secrets-key-file", filepath.Join(h.dir, "keys")}})
	if _, err := c.Client.Secrets().PutSecret(t.Context(), &holdfastv1.PutSecretRequest{Name: "ssh/host", Type: "ssh",
		Values: map[string]string{"username": me.Username, "private_key": h.private}}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Client.Machines().RegisterMachine(t.Context(), &holdfastv1.RegisterMachineRequest{Machine: &holdfastv1.Machine{MachineId: "m-real",
		Spec: &holdfastv1.MachineSpec{Provider: "hosts", SshEndpoint: h.addr, SshCredentialsRef: "ssh/host", SshHostKeys: []string{h.key}}}}); err != nil {
		t.Fatal(err)
	}
	const every = 200 * time.Millisecond
	lines, starts := int(lasts/every), filepath.Join(h.dir, "starts")
	sleep := step("sleep", &holdfastv1.SshCommand{Script: fmt.Sprintf(
		"echo $$ >>%s\ni=0\nwhile [ $i -lt %d ]; do\n  i=$((i + 1))\n  echo \"line $i\"\n  sleep %g\ndone\necho over >&2\n", starts, lines, every.Seconds())})
	sleep.TimeoutSeconds = int32((lasts + 2*harness.Patience) / time.Second)
	c.Plan("sleep", sleep)
	began := time.Now()
	id := c.Start("m-real", "sleep").GetRunId()
	said := func() int { return strings.Count(c.Log(id, "stdout"), "\n") }
	for kill := 1; kill <= 2; kill++ {
		harness.Until(t, "the command to get on", func() (bool, any) { n := said(); return n >= kill*lines/4, n })
		leader := c.TheLeader()
		if err := leader.Kill(); err != nil {
			t.Fatal(err)
		}
		c.Restart(leader)
	}
	run := c.Ended(id)
	if took := time.Since(began); run.GetPhase() != holdfastv1.Run_SUCCEEDED || took < lasts {
		t.Errorf("the run is %s after %s: %v", run.GetPhase(), took, run.GetError())
	}
	attempts := run.GetSteps()[0].GetAttempts()
	if len(attempts) != 1 || len(attempts[0].GetEpochs()) < 3 || attempts[0].GetEvidenceAfter()["exit_code"] != "0" {
		t.Errorf("attempts %v, want one, of three leaders, that exited with 0", attempts)
	}
	if b, err := os.ReadFile(starts); err != nil || strings.Count(string(b), "\n") != 1 {
		t.Errorf("the host has started it as %q (%v), want one process", b, err)
	}
	var want strings.Builder
	for i := range lines {
		want.WriteString("line " + strconv.Itoa(i+1) + "\n")
	}
	if diff := cmp.Diff(want.String(), c.Log(id, "stdout")); diff != "" {
		t.Errorf("stdout, each line once (-want +got):\n%s", diff)
	}
	if got := c.Log(id, "stderr"); got != "over\n" {
		t.Errorf("stderr is %q", got)
	}
}
