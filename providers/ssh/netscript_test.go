package sshexec

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// netHost is a directory that net.sh uses as a host with systemd-networkd, or one without systemd.
type netHost struct {
	t       *testing.T
	dir     string
	script  string // net.sh, with paths in this directory
	manager string
}

// newNetHost returns a host on which a rollback waits, between its decision and the lock, while the
// file "hold" exists.
func newNetHost(t *testing.T) *netHost {
	t.Helper()
	for _, tool := range []string{"flock", "setsid"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("net.sh needs %s: %v", tool, err)
		}
	}
	dir, err := os.MkdirTemp("", "holdfast-host-")
	if err != nil {
		t.Fatal(err)
	}
	h := &netHost{t: t, dir: dir, script: netScript, manager: "networkd"}
	t.Cleanup(func() { // automatic rollbacks are not child processes
		h.until("the end of all that writes to "+dir, func() bool { return os.RemoveAll(dir) == nil })
	})
	h.tool("networkctl", "")
	h.write("net/eth0", "")
	h.tool("ip", h.ip())
	for before, after := range map[string]string{
		"PATH=/usr/local/sbin:":          "PATH=" + h.dir + "/bin:/usr/local/sbin:",
		"boot_unit=/etc/systemd/system/": "boot_unit=" + h.dir + "/",
		"boot_link=/etc/systemd/system/": "boot_link=" + h.dir + "/",
		"\t\tflock -w 20 8 # an apply that hangs does": "\t\twhile [ -f " + h.dir +
			"/hold ]; do sleep 0.02; done\n\t\tflock -w 20 8 # an apply that hangs does",
	} {
		if strings.Count(h.script, before) != 1 {
			t.Fatalf("net.sh: got %q %d times, want once", before, strings.Count(h.script, before))
		}
		h.script = strings.Replace(h.script, before, after, 1)
	}
	return h
}

// ip returns a tool that lists the links in the directory net, each a file with its type, and
// records other calls.
func (h *netHost) ip() string {
	return `case "$*" in
"-o link show"*) n=1; for link in ` + h.dir + `/net/*; do
	[ "$5" ] && [ "$5" != "$(cat "$link")" ] || echo "$n: ${link##*/}: <UP> mtu 1500"
	n=$((n + 1))
done ;;
*) echo "$*" >>` + h.dir + `/calls ;;
esac
`
}

func (h *netHost) write(name, text string) {
	h.t.Helper()
	name = filepath.Join(h.dir, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

// tool creates a tool of the host.
func (h *netHost) tool(name, does string) {
	h.t.Helper()
	h.write("bin/"+name, "#!/bin/sh\n"+does)
	if err := os.Chmod(filepath.Join(h.dir, "bin", name), 0o700); err != nil {
		h.t.Fatal(err)
	}
}

// read returns a file without its last newline, or "" if it does not exist.
func (h *netHost) read(name string) string {
	b, _ := os.ReadFile(filepath.Join(h.dir, name))
	return strings.TrimSpace(string(b))
}

// apply starts the agent's commands for a configuration of one file, and returns a function that
// waits for their end.
func (h *netHost) apply(token, text, rollback string) (ended func()) {
	h.t.Helper()
	d := "d-" + token
	h.write(d+"/supervisor", h.script)
	h.write(d+"/script", text)
	h.write(d+"/job", fmt.Sprintf("%d %s/eth0.network\n", len(text), h.dir))
	cmd := exec.Command("/bin/sh", filepath.Join(h.dir, d, "supervisor"), "run", h.dir, token, filepath.Join(h.dir, d),
		"99999999999999", h.manager, rollback, "none")
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	return func() {
		h.t.Helper()
		if err := cmd.Wait(); err != nil {
			h.t.Errorf("apply %s: %v", token, err)
		}
	}
}

func (h *netHost) until(what string, ok func() bool) {
	h.t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); {
		if time.Now().After(end) {
			h.t.Fatalf("wait for %s: not within a minute; logs: %s %s", what, h.read("d-a/log"), h.read("d-b/log"))
		}
		time.Sleep(10 * time.Millisecond) // sleep: between two polls, with a deadline
	}
}

// A configuration whose time has passed is rolled back while the next one arrives. The next one
// waits for that, and is in effect at the end.
func TestNetworkRollbackBeforeNext(t *testing.T) {
	t.Parallel()
	h := newNetHost(t)
	h.write("eth0.network", "0")
	h.write("hold", "")
	h.apply("a", "1", "0.2")() // not confirmed
	h.until("the rollback of the first", func() bool { return strings.HasPrefix(h.read("d-a/decision"), "reverted") })
	ended := h.apply("b", "2", "0")
	h.until("the claim of the second", func() bool { return h.read("d-b/claim") != "" })
	time.Sleep(500 * time.Millisecond) // sleep: a wrong order would apply it in that time
	if got := h.read("eth0.network"); got != "1" {
		t.Errorf("file during the rollback: got %q, want 1", got)
	}
	if err := os.Remove(filepath.Join(h.dir, "hold")); err != nil {
		t.Fatal(err)
	}
	ended()
	h.until("the end of the rollback",
		func() bool { _, err := os.Stat(filepath.Join(h.dir, "d-a/restored")); return err == nil })
	if got, decision := h.read("eth0.network"), h.read("d-b/decision"); got != "2" ||
		!strings.HasPrefix(decision, "confirmed") || h.read("n-current") != "b" {
		t.Errorf("got file %q, decision %q, in effect %q, want 2, confirmed, b", got, decision,
			h.read("n-current"))
	}
}

// A configuration that awaits its confirmation is not overwritten: the next one is refused, and the
// first one can be kept.
func TestWaitingNetworkIsNotOverwritten(t *testing.T) {
	t.Parallel()
	h := newNetHost(t)
	h.write("eth0.network", "0")
	h.apply("a", "1", "60")()
	h.apply("b", "2", "0")()
	if got, decision := h.read("eth0.network"), h.read("d-b/decision"); got != "1" ||
		!strings.Contains(decision, "waits to be confirmed") || h.read("n-current") != "a" {
		t.Errorf("got file %q, second decision %q, in effect %q, want 1, refused, a", got, decision,
			h.read("n-current"))
	}
	h.write("decision", "confirmed it is kept\n")
	if err := os.Link(filepath.Join(h.dir, "decision"), filepath.Join(h.dir, "d-a/decision")); err != nil {
		t.Fatal(err)
	}
	h.apply("c", "3", "0")()
	h.until("the end of the first one's time", func() bool {
		return h.read("eth0.network") == "3" &&
			h.read("n-current") == "c"
	})
	if got := h.read("d-a/decision"); !strings.HasPrefix(got, "confirmed") {
		t.Errorf("first decision: got %q, want confirmed", got)
	}
}

// A symbolic link is restored as one after a rollback, including relative and dangling ones.
func TestNetworkRollbackRestoresLinks(t *testing.T) {
	t.Parallel()
	for _, target := range []string{"real/eth0", "nowhere"} {
		h := newNetHost(t)
		h.write("real/eth0", "0")
		if err := os.Symlink(target, filepath.Join(h.dir, "eth0.network")); err != nil {
			t.Fatal(err)
		}
		h.apply("a", "1", "0.2")() // not confirmed
		h.until("the rollback", func() bool { _, err := os.Stat(filepath.Join(h.dir, "d-a/restored")); return err == nil })
		if got, err := os.Readlink(filepath.Join(h.dir, "eth0.network")); err != nil || got != target ||
			h.read("real/eth0") != "0" {
			t.Errorf("link to %s: got target %q, %v, with contents %q", target, got, err, h.read("real/eth0"))
		}
	}
}

// Interfaces that ifdown takes down are brought up again, in each class: Debian's installer
// uses allow-hotplug. An ifup without classes is not a failure.
func TestNetworkOfIfupdownIsBroughtUp(t *testing.T) {
	t.Parallel()
	h := newNetHost(t)
	h.manager = "ifupdown"
	h.write("eth0.network", "0")
	calls := func() string { return h.read("calls") }
	h.tool("ifquery", "[ -f "+h.dir+"/calls ] || printf 'lo=lo\\nens3=ens3\\nens4=by-hand\\n'\n")
	h.tool("ifdown", "echo down >>"+h.dir+"/calls\n")
	h.tool("ifup", "echo \"up $*\" >>"+h.dir+"/calls\ncase $* in *hotplug*) exit 1 ;; esac\n")
	h.apply("a", "1", "1")() // not confirmed
	want := "down\nup -a --exclude=lo\nup --allow=hotplug -a --exclude=lo"
	if got := calls(); got != want || h.read("d-a/applied") == "" {
		t.Errorf("calls:\n%s\nwant\n%s\napplied at %q", got, want, h.read("d-a/applied"))
	}
	h.until("the rollback", func() bool { _, err := os.Stat(filepath.Join(h.dir, "d-a/restored")); return err == nil })
	want += "\n" + want + "\nup ens3=ens3\nup ens4=by-hand"
	if got := calls(); got != want {
		t.Errorf("calls:\n%s\nwant\n%s", got, want)
	}
}

// TestNetworkOfNetworkManager checks that new connections are activated, ports first, in files with
// restricted modes. The rollback first removes created links, and then activates the former
// connections.
func TestNetworkOfNetworkManager(t *testing.T) {
	t.Parallel()
	h := newNetHost(t)
	h.manager = "networkmanager"
	calls := h.dir + "/calls"
	h.tool("nmcli", `case "$*" in
*--active) echo 11-old; exit ;;
"connection load "*) stat -c 'load %a' "$3" >>`+calls+`; echo bond >`+h.dir+`/net/bond7; exit ;;
esac
echo "$*" >>`+calls+`
`)
	d := "d-a"
	h.write(d+"/supervisor", h.script)
	var job, script string
	for _, f := range []struct{ name, text string }{
		{"bond7", "[connection]\nid=Bond 7\ntype=bond\ninterface-name=bond7\n"}, {"port",
			"[connection]\nid=port\nmaster=bond7\n[ipv4]\nid=no\n"}, {"later", "[connection]\nid=later\nautoconnect=false\n"},
	} {
		job += fmt.Sprintf("%d %s/%s.nmconnection\n", len(f.text), h.dir, f.name)
		script += f.text
	}
	h.write(d+"/job", job)
	h.write(d+"/script", script)
	run := exec.Command("/bin/sh", filepath.Join(h.dir, d, "supervisor"), "run", h.dir, "a", filepath.Join(h.dir, d),
		"99999999999999", h.manager, "0.2", "none")
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	h.until("the rollback", func() bool { _, err := os.Stat(filepath.Join(h.dir, "d-a/restored")); return err == nil })
	show := func(id string) string { return "load 600\n-g connection.uuid connection show " + id + "\n" }
	want := "connection reload\n" + show("Bond 7") + show("port") + "--wait 60 connection up id port\n" + show("later") +
		"--wait 60 connection up id Bond 7\n" +
		"connection reload\nlink delete bond7\nconnection reload\n--wait 30 connection up uuid 11-old"
	if got := h.read("calls"); got != want {
		t.Errorf("calls:\n%s\nwant\n%s", got, want)
	}
	if left, _ := filepath.Glob(h.dir + "/*.nmconnection"); len(left) > 0 {
		t.Errorf("got remaining files %v", left)
	}
}

// TestNetworkRollbackDeletesCreatedLinks checks that a rollback deletes the bonds, bridges and
// VLANs that the configuration created, before the former network comes up. Earlier links, links
// that it does not name, and links of other kinds stay.
func TestNetworkRollbackDeletesCreatedLinks(t *testing.T) {
	t.Parallel()
	h := newNetHost(t)
	h.write("net/br-old", "bridge")
	h.write("eth0.network", "0")
	created := "bond7 br7 bond7.30 br-old wg7"
	h.tool("networkctl", `echo reload >>`+h.dir+`/calls
[ "$(cat `+h.dir+`/eth0.network)" = 0 ] || for link in bond7:bond br7:bridge bond7.30:vlan docker7:bridge wg7:wireguard; do
echo ${link#*:} >`+h.dir+`/net/${link%:*}
done
`)
	h.apply("a", created, "0.2")()
	h.until("the rollback", func() bool { _, err := os.Stat(filepath.Join(h.dir, "d-a/restored")); return err == nil })
	want := "reload\nreload\nlink delete bond7\nlink delete br7\nlink delete bond7.30\nreload"
	if got := h.read("calls"); got != want {
		t.Errorf("calls:\n%s\nwant\n%s", got, want)
	}
}

// Daemons of the network's manager, such as dhclient, do not hold the lock of network
// configurations.
func TestNetworkDaemonsDoNotHoldTheLock(t *testing.T) {
	t.Parallel()
	h := newNetHost(t)
	h.tool("networkctl", "sleep 20 </dev/null >/dev/null 2>&1 &\n")
	free := func() bool { return exec.Command("flock", "-n", filepath.Join(h.dir, "n-lock"), "true").Run() == nil }
	h.write("eth0.network", "0")
	h.apply("a", "1", "2")()
	if !free() {
		t.Error("got a held lock after the configuration was applied")
	}
	h.until("the rollback", func() bool { _, err := os.Stat(filepath.Join(h.dir, "d-a/restored")); return err == nil })
	for deadline := time.Now().Add(10 * time.Second); !free(); {
		if time.Now().After(deadline) {
			t.Fatal("got a held lock after the rollback")
		}
		time.Sleep(10 * time.Millisecond) // sleep: between two polls, with a deadline
	}
}

// The files for the rollback are on the disk before any change, because a power cut may interrupt a
// change.
func TestNetworkIsSafeFromPowerCuts(t *testing.T) {
	t.Parallel()
	h := newNetHost(t)
	h.tool("sync", "[ $(cat "+h.dir+"/eth0.network) = 0 ] && echo \"$*\" >>"+h.dir+"/synced\n")
	h.write("eth0.network", "0")
	h.apply("a", "1", "60")()
	for _, name := range []string{"old.1", "supervisor", "job", "say.reverted"} {
		if !strings.Contains(h.read("synced"), filepath.Join(h.dir, "d-a", name)+" ") {
			t.Errorf("%s: got no sync before the change: %s", name, h.read("synced"))
		}
	}
}

// A full disk does not prevent a rollback.
func TestNetworkRollbackOnFullDisk(t *testing.T) {
	t.Parallel()
	h := newNetHost(t)
	write := `echo "$1 $2" >"$dir/decision.$$"`
	if strings.Count(h.script, write) != 1 {
		t.Fatalf("net.sh: got %q %d times, want once", write, strings.Count(h.script, write))
	}
	h.script = strings.Replace(h.script, write, `echo "$1 $2" >/dev/full`, 1)
	h.write("eth0.network", "0")
	h.apply("a", "1", "0.2")() // not confirmed
	h.until("the rollback", func() bool { _, err := os.Stat(filepath.Join(h.dir, "d-a/restored")); return err == nil })
	if got, decision := h.read("eth0.network"), h.read("d-a/decision"); got != "0" ||
		!strings.HasPrefix(decision, "reverted") {
		t.Errorf("got file %q, decision %q, want 0 and reverted", got, decision)
	}
	h.apply("b", "2", "0")()
	if got, decision := h.read("eth0.network"), h.read("d-b/decision"); got != "2" || decision != "confirmed" {
		t.Errorf("got file %q, decision %q, want 2 and confirmed", got, decision)
	}
}

// A configuration that died before it had saved the old files has changed nothing, and the next one
// restores nothing for it.
func TestNetworkDiedBeforeSave(t *testing.T) {
	t.Parallel()
	h := newNetHost(t)
	h.write("eth0.network", "0")
	h.write("d-a/job", "1 "+h.dir+"/eth0.network\n")
	h.write("n-a", h.dir+"/d-a another-boot 1 networkd\n")
	h.write("n-current", "a\n")
	began := time.Now()
	h.apply("b", "2", "0")()
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("took %v, because it waited for its own lock", took)
	}
	if kept, got, decision := h.read("d-b/old.1"), h.read("eth0.network"), h.read("d-a/decision"); kept != "0" ||
		got != "2" || !strings.HasPrefix(decision, "reverted") {
		t.Errorf("next one: got saved file %q, file %q, first decision %q, want 0, 2, reverted", kept, got,
			decision)
	}
}
