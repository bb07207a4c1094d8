// Package rollout runs the playbooks of deploy/ansible on Debian hosts with systemd
// (test/lab/hosts), under traffic: it creates a cluster, upgrades it, replaces a host, rotates
// keys, and removes the cluster.
//
// It checks the promises of docs/rollout.md. It must not do by hand what a play does.
package rollout

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/test/overlay"
	"github.com/holdfast-metal/holdfast/test/program"
)

// lab is three hosts or more, binaries of two versions, and a controller: this machine.
type lab struct {
	root, dir, net string
	old, next      string // binaries
	fake           string // URL of the fake fleet
	hosts          []string
}

// run runs a command and returns its output. It fails the test if the command fails.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// open boots the hosts, and removes them with the test.
func open(t *testing.T) *lab {
	t.Helper()
	if os.Getenv("E2E_ANSIBLE") == "" {
		t.Skip("NOT TESTED on hosts: set E2E_ANSIBLE=1, or make e2e-ansible (it needs root, systemd-container, " +
			"debootstrap and ansible-core)")
	}
	root, err := overlay.Root(".")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("/var/tmp", "holdfast-rollout-") // an overlay cannot lie on an overlay, as /tmp may be
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	l := &lab{root: root, dir: dir, net: fmt.Sprintf("10.214.%d", os.Getpid()%200+1), hosts: []string{"n1", "n2", "n3"}}
	for version, bin := range map[string]*string{"v0.0.1": &l.old, "v0.0.2": &l.next} {
		if *bin, err = (program.Build{Version: version}).Into(t.Context(), filepath.Join(dir, version)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("HOSTS_NET", l.net)
	t.Cleanup(func() {
		if out, err := exec.Command(l.script(), "down", l.disks()).CombinedOutput(); err != nil {
			t.Errorf("take the hosts down: %v\n%s", err, out)
		}
	})
	run(t, l.script(), append([]string{"up", l.disks()}, l.hosts...)...)
	l.startFake(t)
	l.writeInventory(t)
	return l
}

// writeInventory writes the inventory of all hosts.
func (l *lab) writeInventory(t *testing.T) {
	t.Helper()
	var inv strings.Builder
	inv.WriteString("holdfast_peers:\n  hosts:\n")
	for i, h := range l.hosts {
		fmt.Fprintf(&inv, "    %s: {ansible_host: %s}\n", h, l.address(i))
	}
	fmt.Fprintf(&inv, `  vars:
    ansible_user: root
    ansible_ssh_private_key_file: %s/id_ed25519
    ansible_ssh_common_args: -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null
    holdfast_cluster: lab
    holdfast_controller_binary: %s
    holdfast_firewall: true
    holdfast_firewall_clients: [%s.1]
    holdfast_config: {providers: {fake: {kind: fake, endpoint: %q}}}
`, l.disks(), l.old, l.net, l.fake)
	if err := os.WriteFile(filepath.Join(l.dir, "inventory.yml"), []byte(inv.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (l *lab) script() string       { return filepath.Join(l.root, "test/lab/hosts/hosts.sh") }
func (l *lab) disks() string        { return filepath.Join(l.dir, "hosts") }
func (l *lab) pki() string          { return filepath.Join(l.dir, "pki") }
func (l *lab) address(i int) string { return fmt.Sprintf("%s.%d", l.net, 11+i) }

// startFake starts the fake hardware on the controller.
func (l *lab) startFake(t *testing.T) {
	t.Helper()
	l.fake = "http://" + l.net + ".1:7450"
	ctx, stop := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, l.old, "fake-hardware", "--addr", l.net+".1:7450", "--latency", "200ms")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		_ = cmd.Wait() // killed
	})
}

// ssh runs a command on a host.
func (l *lab) ssh(t *testing.T, host int, command string) string {
	t.Helper()
	return strings.TrimSpace(run(t, "ssh", "-q", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null",
		"-i", l.disks()+"/id_ed25519",
		"root@"+l.address(host), command))
}

// play runs a playbook, logs its duration, and returns the number of changes on all hosts and the
// output.
func (l *lab) play(t *testing.T, book string, more ...string) (changed int, output string, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "ansible-playbook",
		append([]string{"-i", filepath.Join(l.dir, "inventory.yml"), "playbooks/" + book}, more...)...)
	cmd.Dir = filepath.Join(l.root, "deploy/ansible")
	cmd.WaitDelay = 5 * time.Second
	start := time.Now()
	out, err := cmd.CombinedOutput()
	for _, m := range regexp.MustCompile(`(?m)^\S+ +: ok=\d+ +changed=(\d+)`).FindAllSubmatch(out, -1) {
		n, _ := strconv.Atoi(string(m[1])) // digits
		changed += n
	}
	t.Logf("%-16s %5.1f s, changed %d %s", book, time.Since(start).Seconds(), changed, strings.Join(more, " "))
	return changed, string(out), err
}

// mustPlay is like play but fails the test if the playbook fails.
func (l *lab) mustPlay(t *testing.T, book string, more ...string) (changed int) {
	t.Helper()
	changed, output, err := l.play(t, book, more...)
	if err != nil {
		t.Fatalf("%s: %v\n%s", book, err, output[max(0, len(output)-6000):])
	}
	return changed
}

// client returns a client of the cluster, with the certificate of the plays.
func (l *lab) client(t *testing.T) *client.Client {
	t.Helper()
	tls, err := client.LoadTLS(l.pki()+"/ca.pem", l.pki()+"/clients/ansible.pem", l.pki()+"/clients/ansible-key.pem")
	if err != nil {
		t.Fatal(err)
	}
	var addrs []string
	for i := range l.hosts {
		addrs = append(addrs, l.address(i)+":7400")
	}
	c, err := client.Dial(client.Config{Addrs: addrs, TLS: tls, Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}
