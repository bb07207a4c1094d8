//go:build linux

package repavelab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/prototext"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers/bmc/redfishtest"
	"github.com/holdfast-metal/holdfast/test/bmclab"
	"github.com/holdfast-metal/holdfast/test/bmclab/chassis"
	"github.com/holdfast-metal/holdfast/test/kubelab"
)

// limit bounds the test on a machine with two cores and no KVM. It is shorter than the limit of `go
// test`, so that the test can report what happened.
const limit = 14*time.Minute + 30*time.Second

// installs returns a plan that installs a machine. It succeeds when the installed system answers
// with the host key of its installer.
func installs(retries int) string {
	return fmt.Sprintf(`plan_id: lab-repave
steps:
- {name: set-netboot, timeout_seconds: 120, max_retries: 2, netboot: {mode: PXE}}
- {name: reboot-to-netboot, timeout_seconds: 300, max_retries: 2, reboot: {mode: bmc, force: true}}
- name: repave-image
  timeout_seconds: 720
  max_retries: %d
  repave:
    image: debian
    disk: by=smallest
    cloud_init: |
      #cloud-config
      locale: false
      ssh_genkeytypes: [ed25519]
      users:
      - {name: ops, shell: /bin/bash, ssh_authorized_keys: ["@KEY@"]}
      write_files:
      - {path: /etc/lab, content: from cloud-init}
`, retries)
}

// joins has the steps from the installed system to a node that is Ready.
const joins = `- {name: packages, timeout_seconds: 300, max_retries: 4, ssh: {command: python3, args: ["-c", "import urllib.request as u; exec(u.urlopen('@PACKAGES@/install.py').read())"]}}
- {name: join-cluster, timeout_seconds: 300, max_retries: 1, join: {cluster_ref: lab}}
- {name: verify-in-cluster, timeout_seconds: 180, verify: {cluster_ref: lab}}
`

// box is a machine of the lab.
type box struct {
	*bmclab.Machine
	id   string
	host string
	disk string
	uefi bool
	run  string
}

// TestRepave installs boxes that are off and have empty disks, through their BMCs and over the
// network, and joins them to a real Kubernetes cluster, in one run each. The leader is killed while
// a box boots from the network, while a disk is written, and while a box joins. E2E_REPAVE_BOXES is
// the number of boxes, 3 by default.
func TestRepave(t *testing.T) {
	if why != "" {
		t.Skip("NOT TESTED: " + why)
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	n := 3
	if text := os.Getenv("E2E_REPAVE_BOXES"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil || n < 1 || n > 3 {
			t.Fatalf("E2E_REPAVE_BOXES=%s: want 1 to 3", text)
		}
	}
	began := time.Now()
	network(t, n) // first, because it sets the loopback interface up
	bench, err := bmclab.Open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = bench.Close() }()
	l := bench.Lab(t)
	addresses(l, t, n)
	plane := cluster(t, l)
	s := openSite(t, bench, l, patient)
	boxes := s.boxes(l, n, false)
	t.Logf("%6.1f s: network, dnsmasq, a Kubernetes API, three peers, %d BMCs", time.Since(began).Seconds(), n)
	s.files["packages"] = packages(t, l)
	s.prepare(boxes, installs(1)+joins)
	s.cli("cluster-ref", "add", "lab", "--kubeconfig", kubelab.Account(t, plane))
	t.Logf("%6.1f s: images uploaded, machines registered", time.Since(began).Seconds())

	for _, b := range boxes {
		b.run = s.cli("run", "start", b.id, "--yes", "--type", "REPAVE", "--plan", "lab-repave", "--param",
			"authorized_keys="+s.files["authorized"], "-o", "name")
		b.run = b.run[strings.LastIndex(b.run, "/")+1:]
	}
	t.Logf("%6.1f s: runs started", time.Since(began).Seconds())
	s.until(ctx, "a box to get its boot script", boxes,
		func(i *holdfastv1.Install) bool { return i.GetStage() >= holdfastv1.Install_BOOTED_IPXE })
	t.Logf("%6.1f s: in netboot: killed the leader, %s", time.Since(began).Seconds(), s.lose())
	s.until(ctx, "a disk to be written", boxes, func(i *holdfastv1.Install) bool {
		return i.GetStage() == holdfastv1.Install_WRITING && i.GetProgress() > 0
	})
	t.Logf("%6.1f s: while writing: killed the leader, %s", time.Since(began).Seconds(), s.lose())
	s.joins(ctx, boxes)
	t.Logf("%6.1f s: while joining: killed the leader, %s", time.Since(began).Seconds(), s.lose())
	for _, b := range boxes {
		s.succeeded(ctx, b)
		t.Logf("%6.1f s: run of %s succeeded", time.Since(began).Seconds(), b.id)
	}
	for _, b := range boxes {
		s.check(b)
		s.checkNode(plane, b)
	}
	t.Logf("%6.1f s: done", time.Since(began).Seconds())
}

// boxes creates machines: the first and the third with BIOS, the second with UEFI, or all with UEFI
// that supports only HTTP boot. The first BMC has IPMI, the second Redfish, the third Redfish with
// all oddities that one BMC can have.
func (s *site) boxes(l *bmclab.Lab, n int, http bool) (all []*box) {
	s.t.Helper()
	for i := range n {
		b := &box{id: fmt.Sprintf("box%d", i+1), host: boxHost(i), disk: filepath.Join(s.dir, fmt.Sprintf("box%d.img", i+1))}
		f, err := os.Create(b.disk)
		if err == nil {
			err = errors.Join(f.Truncate(4<<30), f.Close())
		}
		if err != nil {
			s.t.Fatal(err)
		}
		hw := chassis.Box{Memory: 768, Disk: b.disk, Tap: tapName(i), MAC: boxMAC(i), HTTP: http}
		if i == 1 || http {
			vars := filepath.Join(s.dir, b.id+".vars")
			text, err := os.ReadFile("/usr/share/OVMF/OVMF_VARS.fd")
			if err == nil {
				err = os.WriteFile(vars, text, 0o600)
			}
			if err != nil {
				s.t.Fatal(err)
			}
			hw.UEFI, b.uefi = [2]string{"/usr/share/OVMF/OVMF_CODE.fd", vars}, true
		}
		b.Machine = l.Box(b.id, hw)
		all = append(all, b)
	}
	ipmi := l.IPMI(all[0].Machine)
	endpoints := []string{ipmi.Endpoint}
	for i, b := range all[1:] {
		bmc := l.Redfish([]*bmclab.Machine{b.Machine})
		endpoints = append(endpoints, bmc.Path(b.id))
		if i == 0 {
			continue
		}
		var odd redfishtest.Quirks
		redfishtest.AllOdd(&odd)
		if err := bmc.Quirks(s.t.Context(), odd); err != nil {
			s.t.Fatal(err)
		}
	}
	for i, b := range all {
		args := []string{"machine", "register", "--id", b.id, "--provider", "dc", "--bmc", endpoints[i],
			"--bmc-credentials", "bmcs", "--ssh", b.host + ":22", "--ssh-credentials", "hosts",
			"--mac", boxMAC(i), "--phase", "FACTORY_READY"}
		if i == 0 {
			args = append(args, "--label", "bmc-cipher-suite=3")
		}
		b.run = strings.Join(args, "\x00") // registered after the secrets
	}
	return all
}

// prepare makes an operator's preparations.
func (s *site) prepare(boxes []*box, plan string) {
	s.t.Helper()
	s.write("plan.yaml", strings.NewReplacer("@KEY@", s.files["authorized"], "@PACKAGES@",
		s.files["packages"]).Replace(plan))
	s.cli("secret", "put", "bmcs", "--type", "bmc", "--username", bmclab.User, "--from-file", "password="+
		s.files["password"])
	s.cli("secret", "put", "hosts", "--type", "ssh", "--username", "root", "--from-file", "private_key="+s.files["id"])
	s.cli("image", "add", "installer", "--kernel", filepath.Join(netbootDir(), "vmlinuz"), "--initrd",
		filepath.Join(netbootDir(), "installer.cpio.gz"), "--cmdline", "quiet")
	s.cli("image", "add", "debian", "--disk", diskImage())
	s.cli("plan", "apply", "-f", s.files["plan.yaml"])
	for _, b := range boxes {
		s.cli(strings.Split(b.run, "\x00")...)
	}
}

func (s *site) install(b *box) *holdfastv1.Install {
	ctx, cancel := context.WithTimeout(s.t.Context(), 20*time.Second)
	defer cancel()
	i, err := s.client.Installs().GetInstall(ctx, &holdfastv1.GetInstallRequest{MachineId: b.id})
	if err != nil {
		return nil // no session yet, or no leader
	}
	return i
}

// until blocks until the session of a box satisfies ok.
func (s *site) until(ctx context.Context, name string, boxes []*box, ok func(*holdfastv1.Install) bool) {
	s.t.Helper()
	for {
		for _, b := range boxes {
			if ok(s.install(b)) {
				return
			}
		}
		select {
		case <-ctx.Done():
			for _, b := range boxes {
				s.t.Errorf("%s: %v\n%s\n%s", b.id, s.install(b), s.log(b.run), s.console(b))
			}
			s.t.Fatalf("wait for %s: timed out", name)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// console returns the end of a box's serial output.
func (s *site) console(b *box) string {
	text, err := os.ReadFile(filepath.Join(s.dir, b.id+"-serial.log"))
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-4000):])
}

func (s *site) succeeded(ctx context.Context, b *box) {
	s.t.Helper()
	r, err := s.client.WaitRun(ctx, b.run)
	if err != nil || r.GetPhase() != holdfastv1.Run_SUCCEEDED {
		s.t.Fatalf("run %s of %s: %v, %s, waits for %s\n%s\n%v\n%s\n%s", b.run, b.id, err, r.GetPhase(),
			r.GetWait().GetSentence(), prototext.Format(r.GetError()), s.install(b), s.log(b.run), s.console(b))
	}
}

// check compares a box with its record.
func (s *site) check(b *box) {
	s.t.Helper()
	i := s.install(b)
	at := func(from, to interface{ AsTime() time.Time }) string {
		return fmt.Sprintf("%.1f s", to.AsTime().Sub(from.AsTime()).Seconds())
	}
	s.t.Logf("%s: power on to boot script %s, to installer %s, to image written %s, to SSH %s; %d boot scripts", b.id,
		at(i.GetOpenedAt(), i.GetBootedAt()), at(i.GetBootedAt(), i.GetStartedAt()),
		at(i.GetStartedAt(), i.GetCompletedAt()), at(i.GetCompletedAt(), i.GetDiskBootedAt()), i.GetBoots())
	if i.GetStage() != holdfastv1.Install_BOOTED_DISK || len(i.GetHostKeys()) == 0 {
		s.t.Errorf("session of %s: got %v, want booted-disk and host keys", b.id, i)
	}
	if out, err := s.on(b.host, "ops", i.GetHostKeys(),
		"uname -n; cat /etc/lab; echo; cloud-init status --wait | tail -1; "+
			"lsblk -bno SIZE,MOUNTPOINTS /dev/vda2"); err != nil ||
		!strings.HasPrefix(out, b.id+"\nfrom cloud-init\n") || !strings.Contains(out, "status: done") {
		s.t.Errorf("%s: SSH as the user of cloud-init: %v\n%s\n%s", b.id, err, out, s.console(b))
	}
	if b.uefi {
		s.checkBootEntry(b)
	}
	if got := presses(b.Done()); !slices.Equal(got, []string{"on"}) {
		s.t.Errorf("power changes of %s: got %v, want one on; effects: %+v\n%s", b.id, got, b.Done(),
			s.log(b.run))
	}
	m := s.machine(b.id)
	if m.GetStatus().GetPhase() != holdfastv1.MachineStatus_IN_SERVICE ||
		m.GetStatus().GetNodeState() != holdfastv1.Node_ACTIVE {
		s.t.Errorf("%s: got %s, %s, want IN_SERVICE, ACTIVE", b.id, m.GetStatus().GetPhase(), m.GetStatus().GetNodeState())
	}
}

// bootTitle is the name of the installer's boot entry.
const bootTitle = "Holdfast"

// titles prints the names of the firmware's boot entries, and marks the booted one.
const titles = `python3 -c '
import glob
d = lambda n: open(n, "rb").read()[4:]
v = "/sys/firmware/efi/efivars/Boot"
now = int.from_bytes(d(glob.glob(v + "Current-*")[0]), "little")
for f in sorted(glob.glob(v + "[0-9A-F][0-9A-F][0-9A-F][0-9A-F]-*")):
    n = int(f[len(v):][:4], 16)
    print(d(f)[6:].decode("utf-16-le", "replace").split(chr(0))[0], "(booted)" if n == now else "")
'`

// checkBootEntry checks the installer's boot entry on a booted system with UEFI.
func (s *site) checkBootEntry(b *box) {
	s.t.Helper()
	out, err := s.on(b.host, "ops", s.install(b).GetHostKeys(), titles)
	if err != nil || !strings.Contains("\n"+out, "\n"+bootTitle+" ") {
		s.t.Errorf("boot entries of %s: want one named %s, got error %v\n%s", b.id, bootTitle, err, out)
	}
	s.t.Logf("%s: boot entries: %s", b.id, strings.Join(strings.Split(out, "\n"), ", "))
}

// presses returns the changes of the power, in order.
func presses(effects []chassis.Effect) (all []string) {
	for _, e := range effects {
		switch e.What {
		case string(chassis.On), string(chassis.Off), string(chassis.Soft), string(chassis.Reset), "down":
			if !e.Was && !e.Lost {
				all = append(all, e.What)
			}
		}
	}
	return all
}
