package sshexec_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/holdfast-metal/holdfast/providers"
	sshexec "github.com/holdfast-metal/holdfast/providers/ssh"
)

// e2eVariable enables the tests that boot a host with systemd in a container: make e2e-ssh.
const e2eVariable = "E2E_SSH"

// container is a Debian host with systemd, sshd and its own network, booted by systemd-nspawn from
// a root that is built once.
type container struct {
	name, root string
	net        string // its first three bytes: the host has .2, this machine .1
	addr       string
	login      sshexec.Login
}

// bootContainer boots a container, and stops it with the test.
func bootContainer(t *testing.T) *container {
	t.Helper()
	if os.Getenv(e2eVariable) == "" {
		t.Skipf("NOT TESTED on a host with systemd: set %s=1, or make e2e-ssh (needs root, systemd-container and "+
			"debootstrap)", e2eVariable)
	}
	cache := os.Getenv("E2E_SSH_ROOT")
	if cache == "" {
		cache = "/var/cache/holdfast/ssh-root"
	}
	run(t, "testdata/mkroot.sh", cache)
	c := &container{name: fmt.Sprintf("hfssh%d", os.Getpid()%100000)}
	dir := t.TempDir()
	c.root = filepath.Join(dir, "root")
	for _, d := range []string{"up", "work", "root"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	run(t, "mount", "-t", "overlay", "overlay", "-o", fmt.Sprintf("lowerdir=%s,upperdir=%s/up,workdir=%s/work", cache,
		dir, dir), c.root)
	t.Cleanup(func() { run(t, "umount", c.root) })
	user, key := newKey(t)
	c.login = sshexec.Login{PrivateKey: key}
	authorized := string(ssh.MarshalAuthorizedKey(user.PublicKey()))
	for _, home := range []string{"root", "home/hfuser"} {
		c.write(t, home+"/.ssh/authorized_keys", authorized)
	}
	run(t, "chroot", c.root, "chown", "-R", "hfuser:", "/home/hfuser/.ssh")
	run(t, "chmod", "700", c.root+"/root/.ssh", c.root+"/home/hfuser/.ssh")
	net := fmt.Sprintf("10.213.%d", os.Getpid()%250+1)
	c.net, c.addr = net, net+".2:22"
	c.write(t, "etc/systemd/network/20-base.network", "[Match]\nName=host0\n[Network]\nAddress="+net+".2/24\n")
	c.write(t, "etc/machine-id", "")

	run(t, "ip", "netns", "add", c.name)
	t.Cleanup(func() { run(t, "ip", "netns", "del", c.name) })
	run(t, "ip", "link", "add", c.name, "type", "veth", "peer", "name", "host0", "netns", c.name)
	// The link ends with the namespace, after some time.
	t.Cleanup(func() { _ = exec.Command("ip", "link", "del", c.name).Run() })
	run(t, "ip", "addr", "add", net+".1/24", "dev", c.name)
	run(t, "ip", "link", "set", c.name, "up")
	console, err := os.Create(filepath.Join(dir, "console"))
	if err != nil {
		t.Fatal(err)
	}
	// If /run is no tmpfs, nspawn cannot boot it again, so a reboot starts another nspawn.
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for range 20 {
			_ = os.RemoveAll("/run/systemd/nspawn/propagate/" + c.name)
			// Like power off and on.
			_ = exec.Command("ip", "-n", c.name, "addr", "flush", "dev", "host0").Run()
			cmd := exec.Command("systemd-nspawn", "-q", "-D", c.root, "-b", "-M", c.name, "--register=no", "--keep-unit",
				"--network-namespace-path=/run/netns/"+
					c.name, "--capability=CAP_NET_ADMIN", "--resolv-conf=off", "--link-journal=no")
			cmd.Stdout, cmd.Stderr = console, console
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			if cmd.Start() != nil {
				return
			}
			down := make(chan struct{})
			go func() {
				_ = cmd.Wait()
				close(down)
			}()
			select {
			case <-down:
			case <-stop:
				_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
				select {
				case <-down:
				case <-time.After(5 * time.Second):
					_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
					<-down
				}
				return
			}
		}
	}()
	t.Cleanup(func() {
		close(stop)
		<-ended
	})
	t.Cleanup(func() {
		if output, err := os.ReadFile(console.Name()); t.Failed() && err == nil {
			t.Logf("console: %s", output[max(0, len(output)-4000):])
		}
	})
	return c
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func (c *container) write(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(c.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func (c *container) machine() providers.Machine { return machineAt("m-systemd", c.addr) }

func (c *container) provider(t *testing.T) *sshexec.Provider {
	t.Helper()
	p := newProvider(t, sshexec.Config{KillGrace: sshexec.Duration(time.Second),
		DeadAfter: sshexec.Duration(2 * time.Second), KeepAlive: sshexec.Duration(time.Second)}, logins{"key": c.login},
		sshexec.NewPinnedInMemory(nil))
	reachable(t, p, c.machine())
	return p
}

// reachable blocks until the host answers, and returns its boot id.
func reachable(t *testing.T, p *sshexec.Provider, m providers.Machine) string {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		f, err := p.Inspect(t.Context(), m)
		if err == nil && f.Reachable {
			return f.BootID
		}
		if time.Now().After(deadline) {
			t.Fatalf("wait for the host to be reachable: %+v, %v", f, err)
		}
		time.Sleep(100 * time.Millisecond) // sleep: between two polls, with a deadline
	}
}
