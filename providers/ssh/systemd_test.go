package sshexec_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/providertest"
	sshexec "github.com/holdfast-metal/holdfast/providers/ssh"
)

// TestSystemdHost tests the provider on a real systemd host.
func TestSystemdHost(t *testing.T) {
	c := bootContainer(t)
	p := c.provider(t)
	t.Run("FirstNetworkOfASlowHost", func(t *testing.T) { firstNetwork(t, c, p) })
	t.Run("Conformance", func(t *testing.T) {
		silent := silentMachine(t)
		providertest.Run(t, func(*testing.T) providertest.Setup {
			return providertest.Setup{
				Provider: p, Machine: c.machine(), Silent: silent, Missing: machineAt("missing", "127.0.0.1:1"),
				Wait: 20 * time.Second, Poll: 20 * time.Millisecond, Rollback: 4 * time.Second,
				NetConfig: c.networkd(".2", ".3"),
			}
		})
	})
	h := host{
		machine: c.machine(), addr: c.addr, state: "/var/lib/holdfast/ssh", dir: "/root",
		seen: func(p string) string { return c.root + p }, long: 60, user: "hfuser",
		make: c.provider,
	}
	t.Run("Commands", h.commands)
	t.Run("RunsAsAUnit", func(t *testing.T) { runsAsAUnit(t, h) })
	t.Run("DaemonsGoWithTheUnit", func(t *testing.T) { daemonsGoWithTheUnit(t, h) })
	t.Run("Sudo", func(t *testing.T) { sudo(t, c, h) })
	t.Run("Image", func(t *testing.T) {
		c.write(t, "etc/holdfast/image", "debian-12-v7\n")
		if f, err := p.Inspect(t.Context(), c.machine()); err != nil || f.Image != "debian-12-v7" || f.BootID == "" {
			t.Errorf("got %+v, %v", f, err)
		}
	})
	t.Run("Network", func(t *testing.T) { networks(t, c, p) })
	t.Run("NetworkWithoutUnits", func(t *testing.T) {
		// Make the agent see a host without systemd. Not through the host, which may have lost its
		// network if the test has failed.
		there, away := c.root+"/usr/bin/systemd-run", c.root+"/usr/bin/systemd-run.away"
		if err := os.Rename(there, away); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := os.Rename(away, there); err != nil {
				t.Error(err)
			}
		}()
		networks(t, c, c.provider(t), "networkd")
	})
	t.Run("NetworkMoves", func(t *testing.T) { moves(t, c, p) })
	t.Run("Reboot", func(t *testing.T) { reboots(t, c, h, p) })
	t.Run("RebootBeforeConfirm", func(t *testing.T) { rebootBeforeConfirm(t, c, p) })
}

// networkd returns a configuration with some addresses.
func (c *container) networkd(hosts ...string) string {
	s := "[Match]\nName=host0\n[Network]\n"
	for _, h := range hosts {
		s += "Address=" + c.net + h + "/24\n"
	}
	return s
}

// runsAsAUnit checks that the command is a systemd service of the host.
func runsAsAUnit(t *testing.T, h host) {
	p, token := h.make(t), newToken(t)
	h.start(t, p, token, providers.Command{Script: "sleep 600", Timeout: time.Hour})
	out, _ := h.run(t, p, providers.Command{Path: "systemctl", Args: []string{"show", "-p",
		"ActiveState,KillMode,RuntimeMaxUSec,TimeoutStopUSec", "holdfast-" + token + ".service"}})
	for _, want := range []string{"ActiveState=active", "KillMode=control-group", "RuntimeMaxUSec=1h\n",
		"TimeoutStopUSec=1s"} {
		if !strings.Contains(out["stdout"], want) {
			t.Errorf("got %q, want %s in it", out["stdout"], want)
		}
	}
	// An operator may also stop it.
	h.run(t, p, providers.Command{Path: "systemctl", Args: []string{"stop", "holdfast-" + token + ".service"}})
	if _, s := h.follow(t, p, token, 0); s.State != providers.WorkFailed ||
		!strings.Contains(s.Reason, "terminated from outside") {
		t.Errorf("got %+v", s)
	}
	out, _ = h.run(t, p, providers.Command{Script: "systemctl list-units --all --plain --no-legend 'holdfast-*' | " +
		"grep -v Systemd"})
	if strings.Contains(out["stdout"], token) {
		t.Errorf("got a remaining unit: %s", out["stdout"])
	}
}

func daemonsGoWithTheUnit(t *testing.T, h host) {
	p, marker := h.make(t), filepath.Join(h.dir, rand.Text())
	h.run(t, p, providers.Command{Script: fmt.Sprintf("setsid sh -c 'while :; do date +%%s%%N >>%s; sleep 0.05; "+
		"done' >/dev/null 2>&1 & sleep 0.5", marker)})
	eventually(t, "the end of the daemon", func() bool {
		was := h.file(t, marker)
		time.Sleep(300 * time.Millisecond) // sleep: a remaining process would write
		return was != "" && h.file(t, marker) == was
	})
}

// sudo tests a user other than root.
func sudo(t *testing.T, c *container, h host) {
	login := c.login
	login.Username = "hfuser"
	p := newProvider(t, sshexec.Config{}, logins{"key": login}, sshexec.NewPinnedInMemory(nil))
	if out, s := h.run(t, p, providers.Command{Path: "id", Args: []string{"-un"}}); out["stdout"] != "root\n" ||
		s.ExitCode != 0 {
		t.Errorf("got %q and %+v", out, s)
	}
	c.write(t, "etc/sudoers.d/hfuser", "")
	p = newProvider(t, sshexec.Config{}, logins{"key": login}, sshexec.NewPinnedInMemory(nil))
	wantClass(t, inspect(t, p, c.machine()), providers.Auth, "sudo")
}

// networks tests each network manager: apply, confirm over the new path, and roll back if that does
// not work.
func networks(t *testing.T, c *container, p *sshexec.Provider, only ...string) {
	// A container has no udev, which netplan triggers.
	c.shell(t, p, "printf '#!/bin/sh\n' >/usr/local/sbin/udevadm; chmod 755 /usr/local/sbin/udevadm")
	defer func() {
		c.shell(t, p, "rm -f /usr/local/sbin/udevadm /etc/netplan/* /run/systemd/network/* /etc/systemd/network/*; "+
			"echo 'auto lo' >/etc/network/interfaces; printf '"+
			strings.ReplaceAll(c.networkd(".2"), "\n", `\n`)+
			"' >/etc/systemd/network/20-base.network; systemctl stop NetworkManager; systemctl restart systemd-networkd")
	}()
	for _, n := range []struct{ name, good, cut string }{
		{"networkd", c.networkd(".2", ".4"), c.networkd(".99")},
		{"netplan", c.netplan(".2", ".5"), c.netplan(".99")},
		{"ifupdown", c.ifupdown(".2"), c.ifupdown(".99")},
		{"networkmanager", c.keyfile("host0", ".2", ".6"), c.keyfile("host0", ".99")},
	} {
		if len(only) > 0 && !slices.Contains(only, n.name) {
			continue
		}
		t.Run(n.name, func(t *testing.T) {
			if n.name == "ifupdown" { // other managers must release the interface
				c.shell(t, p, "rm -f /etc/netplan/*.yaml /etc/systemd/network/*; mkdir -p /run/network; printf 'auto "+
					"host0\niface host0 inet static\n address "+c.net+
					".2/24\n' >/etc/network/interfaces; systemctl stop systemd-networkd.socket systemd-networkd; (ip addr flush "+
					"dev host0; ifup host0) ; true")
				reachable(t, p, c.machine())
			}
			if n.name == "networkmanager" {
				c.useNetworkManager(t, p)
			}
			apply := func(config string, rollback time.Duration) providers.Op {
				op := providers.Op{RunID: "r-" + rand.Text()[:8], Step: "net-" + n.name, Attempt: 1}
				if err := p.ApplyNetwork(t.Context(), op, c.machine(), config, rollback); err != nil {
					t.Fatal(err)
				}
				return op
			}
			status := func(want providers.NetworkStatus) {
				t.Helper()
				var got providers.NetworkStatus
				var err error
				for deadline := time.Now().Add(40 * time.Second); time.Now().Before(deadline); {
					if got, err = p.NetworkStatus(t.Context(), c.machine()); err == nil && got == want {
						return
					}
					time.Sleep(100 * time.Millisecond) // sleep: between two polls, with a deadline
				}
				t.Fatalf("network status: got %+v, %v, want %+v; log: %s", got, err, want, c.logs(want.Token))
			}
			before := c.files()
			op := apply(n.cut, 10*time.Second)
			eventually(t, "the host to leave its old address",
				func() bool { return exec.Command("ping", "-c1", "-W1", c.net+".2").Run() != nil })
			status(providers.NetworkStatus{Token: op.Token(), Reverted: true}) // the host has rolled back
			if after := c.files(); after != before {
				t.Errorf("files after the rollback:\n%s\nwant\n%s", after, before)
			}
			op = apply(n.good, 30*time.Second)
			status(providers.NetworkStatus{Token: op.Token()})
			confirms(t, p, op, c.machine())
			status(providers.NetworkStatus{Token: op.Token(), Confirmed: true})
			if got := c.shell(t, p, "systemctl list-timers --all --no-legend 'holdfast-net*'; ls "+
				"/etc/systemd/system/holdfast-net-rollback.service 2>/dev/null; true"); got != "" {
				t.Errorf("got remaining files after the confirmation: %s", got)
			}
			good := n.good
			if n.name == "ifupdown" { // a daemon like dhclient
				good += " up setsid sleep 86399 </dev/null >/dev/null 2>&1 &\n"
			}
			c.goesBackFromABridge(t, p, n.name, apply, status)
			op = apply(good, 0)
			status(providers.NetworkStatus{Token: op.Token(), Confirmed: true})
			if n.name == "ifupdown" {
				eventually(t, "the end of the unit", func() bool {
					return c.shell(t, p, "systemctl is-active holdfast-net-"+op.Token()+".service || true") != "active\n"
				})
				if got := c.shell(t, p, "pgrep -fx 'sleep 86399' >/dev/null && echo there; flock -n "+
					"/var/lib/holdfast/ssh/n-lock echo free; true"); got != "there\nfree\n" {
					t.Errorf("daemon and lock after the change: got %q, want there and free", got)
				}
			}
		})
	}
	t.Run("broken", func(t *testing.T) {
		op := providers.Op{RunID: "r-" + rand.Text()[:8], Step: "net", Attempt: 1}
		if err := p.ApplyNetwork(t.Context(), op, c.machine(), "network:\n  version: 77\n", 10*time.Second); err != nil {
			t.Fatal(err)
		}
		got, err := p.NetworkStatus(t.Context(), c.machine())
		if want := (providers.NetworkStatus{Token: op.Token(), Reverted: true}); err != nil || got != want {
			t.Errorf("got %+v, %v, want %+v at once", got, err, want)
		}
		wantClass(t, p.ConfirmNetwork(t.Context(), op, c.machine(), op.Token()), providers.Unsupported,
			"could not be applied")
	})
}

// confirms confirms a configuration like the executor: on a busy machine, a new connection may seem
// older than the change, and is retried.
func confirms(t *testing.T, p *sshexec.Provider, op providers.Op, m providers.Machine) {
	t.Helper()
	eventually(t, "the confirmation", func() bool {
		err := p.ConfirmNetwork(t.Context(), op, m, op.Token())
		if err != nil && (providers.ClassOf(err) != providers.Transient ||
			!strings.Contains(err.Error(), "older than the change")) {
			t.Fatal(err)
		}
		return err == nil
	})
}

// firstNetwork checks that a host without a previous network configuration, whose agent starts
// slowly, is waited for.
func firstNetwork(t *testing.T, c *container, p *sshexec.Provider) {
	if _, err := os.Stat(c.root + "/var/lib/holdfast/ssh/n-current"); err == nil {
		t.Fatal("got an earlier configuration")
	}
	h := host{machine: c.machine()}
	token := newToken(t)
	h.start(t, p, token, providers.Command{Script: "exec 8>/var/lib/holdfast/ssh/n-lock; flock 8; echo held; sleep 2",
		Timeout: time.Minute})
	eventually(t, "the lock", func() bool {
		s, err := p.CommandStatus(t.Context(), c.machine(), token, 0)
		return err == nil && len(s.Output) > 0
	})
	op := providers.Op{RunID: "r-" + rand.Text()[:8], Step: "net", Attempt: 1}
	if err := p.ApplyNetwork(t.Context(), op, c.machine(), c.networkd(".2"), 0); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the configuration to be in effect", func() bool {
		got, err := p.NetworkStatus(t.Context(), c.machine())
		return err == nil && got == providers.NetworkStatus{Token: op.Token(), Confirmed: true}
	})
}

// moves changes the address of a host. It is confirmed at the new one, with the same host key, and
// not at the old one. Without a confirmation, it is back at the old address after the rollback
// time.
func moves(t *testing.T, c *container, p *sshexec.Provider) {
	there := machineAt(c.machine().GetMachineId(), c.net+".8:22")
	apply := func(at providers.Machine, config string, rollback time.Duration) providers.Op {
		op := providers.Op{RunID: "r-" + rand.Text()[:8], Step: "net", Attempt: 1}
		if err := p.ApplyNetwork(t.Context(), op, at, config, rollback); err != nil {
			t.Fatal(err)
		}
		return op
	}
	status := func(at providers.Machine, want providers.NetworkStatus) {
		t.Helper()
		var got providers.NetworkStatus
		var err error
		for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
			if got, err = p.NetworkStatus(t.Context(), at); err == nil && got == want {
				return
			}
			time.Sleep(100 * time.Millisecond) // sleep: between two polls, with a deadline
		}
		t.Fatalf("network status at %s: got %+v, %v, want %+v; log: %s", at.GetSpec().GetSshEndpoint(), got, err, want,
			c.logs(want.Token))
	}
	// The test must observe it there before the rollback, also on a busy machine.
	op := apply(c.machine(), c.networkd(".8"), 15*time.Second)
	status(there, providers.NetworkStatus{Token: op.Token()})
	status(c.machine(), providers.NetworkStatus{Token: op.Token(), Reverted: true}) // not confirmed

	op = apply(c.machine(), c.networkd(".8"), time.Minute)
	status(there, providers.NetworkStatus{Token: op.Token()})
	short, stop := context.WithTimeout(t.Context(), 3*time.Second)
	defer stop()
	if err := p.ConfirmNetwork(short, op, c.machine(), op.Token()); err == nil {
		t.Error("confirm at the old address: got no error")
	}
	other := newProvider(t, sshexec.Config{}, logins{"key": c.login},
		sshexec.NewPinnedInMemory(map[string][]string{there.GetMachineId(): {anotherKey(t)}}))
	if err := other.ConfirmNetwork(t.Context(), op, there, op.Token()); err == nil ||
		!strings.Contains(err.Error(), "is pinned") {
		t.Errorf("confirm at a host with another key: got %v", err)
	}
	confirms(t, p, op, there)
	status(there, providers.NetworkStatus{Token: op.Token(), Confirmed: true})

	op = apply(there, c.networkd(".2"), time.Minute)
	status(c.machine(), providers.NetworkStatus{Token: op.Token()})
	confirms(t, p, op, c.machine())
}

func anotherKey(t *testing.T) string {
	t.Helper()
	k, _ := newKey(t)
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(k.PublicKey())))
}

func (c *container) netplan(hosts ...string) string {
	return "network:\n  version: 2\n  renderer: networkd\n  ethernets:\n    host0:\n      addresses: [" + c.net +
		strings.Join(hosts, "/24, "+c.net) + "/24]\n"
}

func (c *container) ifupdown(h string) string {
	return "auto lo\niface lo inet loopback\nauto host0\niface host0 inet static\n address " + c.net + h + "/24\n"
}

// keyfile returns a connection of NetworkManager.
func (c *container) keyfile(link string, hosts ...string) string {
	s := "[connection]\nid=" + link + "\ntype=ethernet\ninterface-name=" + link +
		"\nautoconnect-priority=10\n[ipv4]\nmethod=manual\n"
	for i, h := range hosts {
		s += fmt.Sprintf("address%d=%s%s/24\n", i+1, c.net, h)
	}
	return s
}

// useNetworkManager makes NetworkManager manage the interface of another manager.
func (c *container) useNetworkManager(t *testing.T, p *sshexec.Provider) {
	t.Helper()
	c.write(t, "etc/NetworkManager/system-connections/base.nmconnection",
		strings.ReplaceAll(c.keyfile("host0", ".2"), "id=host0\n", "id=base\n"))
	run(t, "chmod", "600", c.root+"/etc/NetworkManager/system-connections/base.nmconnection")
	c.shell(t, p, "rm -f /etc/netplan/*.yaml /etc/systemd/network/*; systemctl stop systemd-networkd.socket "+
		"systemd-networkd; ifdown host0 2>/dev/null; echo 'auto lo' >/etc/network/interfaces; ip addr add "+c.net+
		".2/24 dev host0 2>/dev/null; ip link set host0 up; systemctl restart NetworkManager && nmcli --wait 30 "+
		"connection up id base")
	reachable(t, p, c.machine())
}

// bridge returns a configuration that moves the address of the host to a bridge and to an unused
// address, or "" for managers without this test.
func (c *container) bridge(manager string) string {
	switch manager {
	case "networkd":
		return "# file: /etc/systemd/network/05-br7.netdev\n[NetDev]\nName=br7\nKind=bridge\n# file: " +
			"/etc/systemd/network/06-br7.network\n[Match]\nName=br7\n[Network]\nAddress=" + c.net +
			".99/24\n# file: /etc/systemd/network/10-holdfast.network\n[Match]\nName=host0\n[Network]\nBridge=br7\n"
	case "netplan":
		return "network:\n  version: 2\n  renderer: networkd\n  ethernets:\n    host0: {}\n  bridges:\n    br7:\n      " +
			"interfaces: [host0]\n      addresses: [" + c.net + ".99/24]\n"
	case "networkmanager":
		return "# file: /etc/NetworkManager/system-connections/br7.nmconnection\n" +
			strings.ReplaceAll(c.keyfile("br7", ".99"), "ethernet", "bridge") +
			"# file: /etc/NetworkManager/system-connections/br7-port.nmconnection\n[connection]\nid=br7-port\n" +
			"type=ethernet\ninterface-name=host0\nmaster=br7\nslave-type=bridge\nautoconnect-priority=20\n"
	}
	return ""
}

// goesBackFromABridge checks that a rollback deletes the created bridge and returns the address to
// its interface.
func (c *container) goesBackFromABridge(
	t *testing.T, p *sshexec.Provider, manager string, apply func(string,
		time.Duration) providers.Op, status func(providers.NetworkStatus),
) {
	t.Helper()
	config := c.bridge(manager)
	if config == "" {
		return
	}
	before := c.files()
	op := apply(config, 10*time.Second)
	eventually(t, "the host to leave its old address",
		func() bool { return exec.Command("ping", "-c1", "-W1", c.net+".2").Run() != nil })
	eventually(t, "a bridge", func() bool { return strings.Contains(run(t, "ip", "-n", c.name, "-br", "link"), "br7") })
	status(providers.NetworkStatus{Token: op.Token(), Reverted: true})
	gone := func() bool { return !strings.Contains(run(t, "ip", "-n", c.name, "-br", "link"), "br7") }
	for deadline := time.Now().Add(20 * time.Second); !gone() && time.Now().Before(deadline); {
		time.Sleep(100 * time.Millisecond) // sleep: between two polls, with a deadline
	}
	if !gone() {
		t.Errorf("got a remaining bridge: %s", c.logs(op.Token()))
	}
	if after := c.files(); after != before {
		t.Errorf("files after the rollback:\n%s\nwant\n%s", after, before)
	}
}

// files returns the network configuration of the host.
func (c *container) files() string {
	out, _ := exec.Command("sh", "-c", "cd "+c.root+
		"/etc && tail -n +1 netplan/* systemd/network/* network/interfaces "+
		"NetworkManager/system-connections/* 2>/dev/null").Output()
	return string(out)
}

func (c *container) logs(token string) string {
	out, _ := exec.Command("sh", "-c", "cat "+c.root+"/var/lib/holdfast/ssh/n-"+token+" "+c.root+
		"/var/lib/holdfast/ssh/d-*/log | tail -n 30").CombinedOutput()
	links, _ := exec.Command("ip", "-n", c.name, "addr").CombinedOutput()
	return string(out) + string(links)
}

func (c *container) shell(t *testing.T, p *sshexec.Provider, script string) string {
	t.Helper()
	out, s := host{machine: c.machine()}.run(t, p, providers.Command{Script: script})
	if s.State != providers.WorkDone || s.ExitCode != 0 {
		t.Fatalf("%s: %+v %q", script, s, out)
	}
	return out["stdout"]
}

// reboots checks that a running command fails with a reason after a reboot, and is not started
// again.
func reboots(t *testing.T, c *container, h host, p *sshexec.Provider) {
	// A connection that dies with the host leaves nothing that affects the next one.
	before := reachable(t, p, c.machine())
	token, marker := newToken(t), filepath.Join(h.dir, rand.Text())
	cmd := providers.Command{Script: "echo started >>" + marker + "; echo before; sleep 600"}
	h.start(t, p, token, cmd)
	eventually(t, "the start", func() bool { return h.file(t, marker) != "" })
	op := providers.Op{RunID: "r-" + rand.Text()[:8], Step: "reboot", Attempt: 1}
	if err := p.Reboot(t.Context(), op, c.machine()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another boot id", func() bool {
		f, err := p.Inspect(t.Context(), c.machine())
		return err == nil && f.Reachable && f.BootID != before
	})
	out, s := h.follow(t, p, token, 0)
	if s.State != providers.WorkFailed || s.Reason == "" || out["stdout"] != "before\n" {
		t.Errorf("got %+v and %q, want a failure with a reason and its output", s, out)
	}
	t.Logf("reason: %s", s.Reason)
	h.start(t, p, token, cmd)
	if got := h.file(t, marker); got != "started\n" {
		t.Errorf("got starts %q, want one", got)
	}
	if err := p.Reboot(t.Context(), op, c.machine()); err != nil { // the same attempt, which was done
		t.Fatal(err)
	}
	now := reachable(t, p, c.machine())
	time.Sleep(time.Second) // sleep: a second reboot would begin
	if again := reachable(t, p, c.machine()); again != now {
		t.Error("got two reboots for one attempt")
	}
}

// rebootBeforeConfirm checks that an unconfirmed configuration does not survive a reboot, although
// its timer does not either.
func rebootBeforeConfirm(t *testing.T, c *container, p *sshexec.Provider) {
	before := reachable(t, p, c.machine())
	op := providers.Op{RunID: "r-" + rand.Text()[:8], Step: "net", Attempt: 1}
	if err := p.ApplyNetwork(t.Context(), op, c.machine(), c.networkd(".2", ".7"), 10*time.Minute); err != nil {
		t.Fatal(err)
	}
	if got, err := p.NetworkStatus(t.Context(), c.machine()); err != nil ||
		got != (providers.NetworkStatus{Token: op.Token()}) {
		t.Fatalf("got %+v, %v", got, err)
	}
	if err := p.Reboot(t.Context(), providers.Op{RunID: op.RunID, Step: "reboot", Attempt: 1}, c.machine()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another boot id", func() bool {
		f, err := p.Inspect(t.Context(), c.machine())
		return err == nil && f.Reachable && f.BootID != before
	})
	if got, err := p.NetworkStatus(t.Context(), c.machine()); err != nil ||
		got != (providers.NetworkStatus{Token: op.Token(), Reverted: true}) {
		t.Errorf("got %+v, %v, want reverted", got, err)
	}
	if got := c.shell(t, p,
		"ip -br addr show host0; ls /etc/systemd/network /etc/systemd/system/multi-user.target.wants"); strings.Contains(
		got, c.net+".7/") || strings.Contains(got, "holdfast-net") {
		t.Errorf("got remaining files after the reboot: %s", got)
	}
}
