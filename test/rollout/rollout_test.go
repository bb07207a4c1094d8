package rollout

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// broken is a release that prints its version and cannot run a peer.
const broken = `#!/bin/sh
case $1 in server) echo "a build that cannot run" >&2; exit 1 ;; *) echo v0.0.3 ;; esac
`

// TestRollout runs the plays of a cluster in order, up to the loss of a host and the growth to five
// peers.
func TestRollout(t *testing.T) {
	l := open(t)
	l.mustPlay(t, "site.yml", "--check", "-e", "holdfast_binary="+l.old)
	if _, err := os.Stat(l.pki() + "/ca.pem"); err == nil {
		t.Error("--check: got a new CA, want no change")
	}
	l.mustPlay(t, "site.yml", "-e", "holdfast_binary="+l.old)
	if n := l.mustPlay(t, "site.yml", "-e", "holdfast_binary="+l.old); n != 0 {
		t.Errorf("second run: got %d changes, want 0", n)
	}
	l.hardened(t)
	l.runs(t, "v0.0.1")
	l.restartsHungPeer(t)
	l.netboots(t)

	tr := l.traffic(t, "up")
	l.mustPlay(t, "upgrade.yml", "-e", "holdfast_binary="+l.next)
	tr.end(t, "the upgrade")
	l.runs(t, "v0.0.2")

	l.goesBack(t)
	l.replaces(t)
	l.runs(t, "v0.0.2")
	l.grows(t)
}

// TestRecovery monitors and backs up a cluster, restores it after the loss of all hosts, rotates
// its keys, and removes it.
func TestRecovery(t *testing.T) {
	l := open(t)
	l.mustPlay(t, "site.yml", "-e", "holdfast_binary="+l.next)
	l.watched(t)
	l.enrolls(t)
	l.restores(t)

	tr := l.traffic(t, "rot")
	l.mustPlay(t, "rotate_keys.yml")
	tr.end(t, "the rotation of keys")
	l.runs(t, "v0.0.2")
	l.changesCA(t)

	if _, output, err := l.play(t, "teardown.yml"); err == nil || !strings.Contains(output, "-e holdfast_teardown=lab") {
		t.Errorf("teardown without the name of the cluster: got %v", err)
	}
	l.mustPlay(t, "teardown.yml", "-e", "holdfast_teardown=lab")
	for i := range l.hosts {
		if got := l.ssh(t, i, "ls -d /etc/holdfast /var/lib/holdfast /usr/local/bin/holdfast /usr/local/lib/holdfast "+
			"2>/dev/null; pgrep holdfast; nft list tables; getent passwd holdfast; true"); got != "" {
			t.Errorf("left on %s: got %s, want nothing", l.hosts[i], got)
		}
	}
}

// hardened compares the exposure level of the running service with the promise.
func (l *lab) hardened(t *testing.T) {
	output := l.ssh(t, 0, "systemd-analyze security holdfast.service --no-pager | tail -n1")
	m := regexp.MustCompile(`: ([0-9.]+) `).FindStringSubmatch(output)
	if len(m) < 2 {
		t.Fatalf("systemd-analyze security: got %q", output)
	}
	if level, err := strconv.ParseFloat(m[1], 64); err != nil || level > 2.5 {
		t.Errorf("exposure level: got %s, want at most 2.5", m[1])
	}
	if got := l.ssh(t, 0, "journalctl -u holdfast -o cat | grep -c 'bootstrap token' || true"); got != "0" {
		t.Error("got the bootstrap token in the journal")
	}
}

// restartsHungPeer checks that the watchdog restarts a hanging peer.
func (l *lab) restartsHungPeer(t *testing.T) {
	l.ssh(t, 0, "pid=$(systemctl show -p MainPID --value holdfast); kill -STOP $pid; for i in $(seq 90); do sleep "+
		"1; now=$(systemctl show -p MainPID --value holdfast); [ $now != 0 ] && [ $now != $pid ] && exit 0; done; echo "+
		"still $pid; exit 1")
	l.mustPlay(t, "site.yml", "-e", "holdfast_binary="+l.old) // which waits until all peers are healthy
}

// runs checks that all peers run one version and are healthy.
func (l *lab) runs(t *testing.T, version string) {
	t.Helper()
	s, err := l.client(t).Cluster().GetClusterStatus(t.Context(), &holdfastv1.GetClusterStatusRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(l.hosts); int(s.GetFailureTolerance()) != (n-1)/2 || len(s.GetPeers()) != n {
		t.Errorf("got %d peers, tolerance %d, want %d and %d", len(s.GetPeers()), s.GetFailureTolerance(), n, (n-1)/2)
	}
	for _, p := range s.GetPeers() {
		if p.GetVersion() != version || !p.GetMayVote() {
			t.Errorf("peer %s: got version %s and voter %v, want %s", p.GetId(), p.GetVersion(), p.GetMayVote(), version)
		}
	}
}

// goesBack upgrades to a release that cannot run, which is rolled back on the first peer.
func (l *lab) goesBack(t *testing.T) {
	file := filepath.Join(l.dir, "broken")
	if err := os.WriteFile(file, []byte(broken), 0o755); err != nil {
		t.Fatal(err)
	}
	tr := l.traffic(t, "back")
	_, output, err := l.play(t, "upgrade.yml", "-e", "holdfast_binary="+file)
	tr.end(t, "an upgrade to a broken release")
	if err == nil || !strings.Contains(output, "was rolled back; it serves again") {
		t.Errorf("upgrade to a broken release: got %v\n%s", err, output[max(0, len(output)-3000):])
	}
	l.runs(t, "v0.0.2")
}

// replaces removes a host with its disk, and puts an empty one in its place.
func (l *lab) replaces(t *testing.T) {
	if _, output, err := l.play(t, "replace_peer.yml", "-e", "holdfast_replace=n2", "-e", "holdfast_binary="+
		l.next); err == nil || !strings.Contains(output, "there is nothing to replace") {
		t.Errorf("replace a live peer: got %v", err)
	}
	tr := l.traffic(t, "rep")
	run(t, l.script(), "kill", l.disks(), "n2")
	run(t, l.script(), "wipe", l.disks(), "n2")
	run(t, l.script(), "boot", l.disks(), "n2")
	l.mustPlay(t, "replace_peer.yml", "-e", "holdfast_replace=n2", "-e", "holdfast_binary="+l.next)
	tr.end(t, "the loss and replacement of a host")
	l.runs(t, "v0.0.2")
}

// watched checks that a Prometheus on one host scrapes all peers and has the alerts.
func (l *lab) watched(t *testing.T) {
	l.mustPlay(t, "monitoring.yml", "-e", "holdfast_monitoring_group=n3", "-e", "holdfast_monitoring_interval=2s", "-e",
		"holdfast_binary="+l.next)
	if n := l.mustPlay(t, "monitoring.yml", "-e", "holdfast_monitoring_group=n3", "-e",
		"holdfast_monitoring_interval=2s", "-e", "holdfast_binary="+l.next); n != 0 {
		t.Errorf("second run of monitoring.yml: got %d changes, want 0", n)
	}
	const ask = `python3 -c 'import json, urllib.request as u, time
def get(what): return json.load(u.urlopen("http://127.0.0.1:9090/api/v1/" + what))["data"]
for _ in range(60):
    health = [x["health"] for x in get("targets?state=active")["activeTargets"] if "7401" in x["scrapeUrl"]]
    if health == ["up"] * 3: break
    time.sleep(1)
alerts = sum(len(g["rules"]) for g in get("rules?type=alert")["groups"])
print(",".join(health), alerts > 20)'`
	if got, want := l.ssh(t, 2, ask), "up,up,up True"; got != want {
		t.Errorf("Prometheus: got %q, want %q", got, want)
	}
}

// changesCA replaces the CA. Clients that trust both CAs work throughout, and the old CA is not
// trusted at the end.
func (l *lab) changesCA(t *testing.T) {
	old, err := os.ReadFile(l.pki() + "/ca.pem")
	if err != nil {
		t.Fatal(err)
	}
	if _, output, err := l.play(t, "rotate_ca.yml", "-e", `{"holdfast_ca_steps": ["use"]}`); err == nil ||
		!strings.Contains(output, "begin with -e") {
		t.Errorf("use a CA that was not begun: got %v", err)
	}
	l.mustPlay(t, "rotate_ca.yml", "-e", `{"holdfast_ca_steps": ["begin"]}`)
	if _, output, err := l.play(t, "rotate_ca.yml", "-e", `{"holdfast_ca_steps": ["end"]}`); err == nil ||
		!strings.Contains(output, "signs still") {
		t.Errorf("end with a CA that does not sign yet: got %v", err)
	}
	tr := l.traffic(t, "ca") // its client trusts both
	l.mustPlay(t, "rotate_ca.yml", "-e", `{"holdfast_ca_steps": ["use", "end"]}`)
	tr.end(t, "the change of the CA")
	l.runs(t, "v0.0.2")
	now, err := os.ReadFile(l.pki() + "/ca.pem")
	if err != nil || strings.Count(string(now), "BEGIN CERTIFICATE") != 1 ||
		strings.Contains(string(now), strings.TrimSpace(string(old))) {
		t.Errorf("CA at the end: got %v\n%s", err, now)
	}
	if got := l.ssh(t, 0, "grep -c BEGIN /etc/holdfast/ca.pem"); got != "1" {
		t.Errorf("trusted CAs of a peer: got %s, want 1", got)
	}
}

// restores backs up the state, removes all hosts, and restores the state in a new cluster of the
// same name.
func (l *lab) restores(t *testing.T) {
	ctx := t.Context()
	kept := &holdfastv1.Machine{MachineId: "kept", Labels: map[string]string{"rack": "r7"}}
	if _, err := l.client(t).Machines().RegisterMachine(ctx,
		&holdfastv1.RegisterMachineRequest{Machine: kept}); err != nil {
		t.Fatal(err)
	}
	l.mustPlay(t, "backup.yml", "-e", "holdfast_controller_binary="+l.old)
	files, err := filepath.Glob(filepath.Join(l.dir, "backups", "holdfast-*.snap"))
	if err != nil || len(files) != 1 {
		t.Fatalf("backups on the controller: got %v, %v, want one", files, err)
	}
	l.ssh(t, 0, "systemctl is-active holdfast-backup.timer && systemctl start holdfast-backup.service")
	if got := l.ssh(t, 0, "holdfast operator snapshot verify /var/backups/holdfast/holdfast-*.snap >/dev/null && "+
		"stat -c '%a %U' /var/backups/holdfast/holdfast-*.snap"); got != "600 root" {
		t.Errorf("backup on a host: got %q, want 600 root", got)
	}
	l.mustPlay(t, "teardown.yml", "-e", "holdfast_teardown=lab")
	l.mustPlay(t, "site.yml", "-e", "holdfast_binary="+l.next)
	l.mustPlay(t, "restore.yml", "-e", "holdfast_restore="+files[0])
	m, err := l.client(t).Machines().GetMachine(ctx, &holdfastv1.GetMachineRequest{MachineId: "kept"})
	if err != nil || m.GetLabels()["rack"] != "r7" {
		t.Errorf("machine kept after the restore: got %v, %v", m, err)
	}
	l.runs(t, "v0.0.2")
}
