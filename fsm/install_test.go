package fsm_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// TestInstallSession follows an executed run from the boot script to the end. Reports with
// the session's token move the node as those of the node API do. They begin no run, and are
// ignored after the attempt.
func TestInstallSession(t *testing.T) {
	p := nodeIn(t, pending)
	start(t, p, "m-1", "q", "", "ubuntu")
	begin(t, p, "run-q")
	step := getRun(t, p, "run-q").GetCurrentStep()
	open := &internalv1.OpenInstall{RunId: "run-q", Step: step, Attempt: 1, Image: "debian"}
	stage := func(want holdfastv1.Install_Stage) *holdfastv1.Install {
		t.Helper()
		i, ok := p.View().Install("m-1")
		if !ok || i.GetStage() != want {
			t.Errorf("got stage %s, want %s", i.GetStage(), want)
		}
		return i
	}
	one, two := fsmtest.TokenValue("one"), fsmtest.TokenValue("two")
	say := func(sum []byte, status string) *internalv1.ReportInstall {
		return &internalv1.ReportInstall{Sha256: sum, Report: &holdfastv1.ReportInstallRequest{Status: status,
			Error: "two disks match", HostKeys: []string{"ssh-ed25519 AAAA"}}}
	}
	refused(t, p, &internalv1.BootInstall{MachineId: "m-1", Sha256: one}, fsm.Aborted, fsm.ReasonNoInstall)
	refused(t, p, &internalv1.OpenInstall{RunId: "run-q", Step: step, Attempt: 2}, fsm.Aborted, fsm.ReasonAttemptMismatch)
	do(t, p, open)
	do(t, p, &internalv1.BootInstall{MachineId: "m-1", Sha256: one})
	do(t, p, open) // a leader that does not know the outcome: no effect
	if i := stage(holdfastv1.Install_BOOTED_IPXE); i.GetBoots() != 1 {
		t.Errorf("got %v", i)
	}
	refused(t, p, say(two, "started"), fsm.Unauthenticated, fsm.ReasonInstallToken)
	do(t, p, say(one, "started"))
	do(t, p, say(one, "started"))
	stage(holdfastv1.Install_INSTALLER_STARTED)
	if m, r := getMachine(t, p, "m-1"), getRun(t, p, "run-q"); m.GetStatus().GetActiveRunId() != "run-q" ||
		r.GetObserved() || r.GetWait().GetValue() != "installer-started" {
		t.Errorf("a report has made a run of its own: %v, %v", m.GetStatus(), r)
	}
	p.Now = p.Now.Add(fsm.InstallerSilence)
	do(t, p, &internalv1.BootInstall{MachineId: "m-1", Sha256: two}) // after a power loss
	do(t, p, say(two, "progress"))
	stage(holdfastv1.Install_WRITING)
	before := fsm.OwnLogBytes(getRun(t, p, "run-q"))
	for range 2 {
		do(t, p, &internalv1.AppendInstallLog{Sha256: two, Data: []byte("hello\n")})
	}
	refused(t, p, &internalv1.AppendInstallLog{Sha256: two, Offset: 7, Data: []byte("x")}, fsm.Aborted, fsm.ReasonLogGap)
	if r := getRun(t, p, "run-q"); fsm.OwnLogBytes(r) != before || r.GetLogBytes() != before+6 ||
		strings.Count(fsmtest.LogText(p.View(), "run-q"), "hello") != 1 {
		t.Errorf("the executor's offset moved from %d to %d, log %q", before, fsm.OwnLogBytes(r),
			fsmtest.LogText(p.View(), "run-q"))
	}
	do(t, p, &internalv1.UpdateMachine{Machine: &holdfastv1.Machine{MachineId: "m-1",
		Spec: &holdfastv1.MachineSpec{SshHostKeys: []string{"ssh-ed25519 OLD"}}}, Paths: []string{"spec.ssh_host_keys"}})
	do(t, p, say(two, "complete"))
	do(t, p, say(two, "failed")) // ignored after the end
	stage(holdfastv1.Install_COMPLETE)
	if got := getMachine(t, p, "m-1").GetSpec().GetSshHostKeys(); !slices.Equal(got, []string{"ssh-ed25519 AAAA"}) {
		t.Errorf("the inventory has the host key of before the install: %q", got)
	}
	if n := getMachine(t, p, "m-1"); n.GetNode().GetInstallAttempts() != 0 ||
		n.GetNode().GetInstallStatus() != "complete" || string(p.View().DeviceNote("host/m-1")) != "ssh-ed25519 AAAA" {
		t.Errorf("after complete: %v, known by %q", n.GetNode(), p.View().DeviceNote("host/m-1"))
	}
	refused(t, p, &internalv1.BootInstall{MachineId: "m-1", Sha256: fsmtest.TokenValue("three")}, fsm.Aborted,
		fsm.ReasonNoInstall)
	end(t, p, "run-q", succeeded)
	refused(t, p, say(two, "started"), fsm.OutOfRange, fsm.ReasonInstallOver)
	if got := string(p.View().DeviceNote("host/m-1")); got != "ssh-ed25519 AAAA" {
		t.Errorf("the host key that the installer has made was forgotten: %q", got)
	}
}

// TestInstallLogOfEachBoot checks that an installer that restarts in a session begins its log
// at 0, and that no output is lost.
func TestInstallLogOfEachBoot(t *testing.T) {
	p := nodeIn(t, pending)
	start(t, p, "m-1", "q", "", "ubuntu")
	begin(t, p, "run-q")
	run := getRun(t, p, "run-q")
	do(t, p, &internalv1.OpenInstall{RunId: "run-q", Step: run.GetCurrentStep(), Attempt: 1, Image: "debian"})
	before, executor := run.GetLogBytes(), fsm.OwnLogBytes(run)
	for _, boot := range []struct{ token, text string }{{"one", "the first one was cut off\n"},
		{"two", "the second one\n"}, {"three", "and a third one, which says more than both of them\n"}} {
		token := fsmtest.TokenValue(boot.token)
		do(t, p, &internalv1.BootInstall{MachineId: "m-1", Sha256: token})
		for range 2 { // a retry after a lost response
			do(t, p, &internalv1.AppendInstallLog{Sha256: token, Data: []byte(boot.text)})
		}
		if got := strings.Count(fsmtest.LogText(p.View(), "run-q"), boot.text); got != 1 {
			t.Errorf("boot %s: the log has %q %d times, want once", boot.token, boot.text, got)
		}
		before += int64(len(boot.text))
	}
	if r := getRun(t, p, "run-q"); r.GetLogBytes() != before || fsm.OwnLogBytes(r) != executor {
		t.Errorf("the log has %d bytes and the executor's offset is %d, want %d and %d", r.GetLogBytes(),
			fsm.OwnLogBytes(r), before, executor)
	}
}

// TestInstallFailureCountsOnce checks that a repeated report of a failure counts as one.
func TestInstallFailureCountsOnce(t *testing.T) {
	p := nodeIn(t, pending)
	start(t, p, "m-1", "q", "", "ubuntu")
	begin(t, p, "run-q")
	do(t, p, &internalv1.OpenInstall{RunId: "run-q", Step: getRun(t, p, "run-q").GetCurrentStep(), Attempt: 1,
		Image: "debian"})
	for range 3 { // the node API knows MAC addresses only, and moves the session too
		report(t, p, "failed")
	}
	i, _ := p.View().Install("m-1")
	if n := getMachine(t, p, "m-1").GetNode(); n.GetInstallAttempts() != 1 ||
		i.GetStage() != holdfastv1.Install_FAILED || i.GetError() != "Disk not found" {
		t.Errorf("got %d strikes, session %v", n.GetInstallAttempts(), i)
	}
}

// TestBootMedium checks that the token of a boot medium is valid like that of a boot script,
// from before the insertion of the medium until the end of the attempt.
func TestBootMedium(t *testing.T) {
	p := nodeIn(t, pending)
	start(t, p, "m-1", "q", "", "ubuntu")
	begin(t, p, "run-q")
	step := getRun(t, p, "run-q").GetCurrentStep()
	one, two := fsmtest.TokenValue("one"), fsmtest.TokenValue("two")
	made := func(sum []byte) *internalv1.NoteInstall {
		return &internalv1.NoteInstall{RunId: "run-q", Step: step, Attempt: 1, MediumSha256: sum,
			MediumServer: "http://10.0.0.1:7404"}
	}
	refused(t, p, made(one), fsm.FailedPrecondition, fsm.ReasonNoInstall)
	do(t, p, &internalv1.OpenInstall{RunId: "run-q", Step: step, Attempt: 1, Image: "debian"})
	refused(t, p, made([]byte("short")), fsm.InvalidArgument, "INVALID_FIELD")
	do(t, p, made(one))
	refused(t, p, made(one), fsm.Aborted, fsm.ReasonIDTaken)
	do(t, p, made(two)) // the leader that knew the first one is dead
	i, err := p.View().InstallByToken(one)
	if err != nil || i.GetStage() != holdfastv1.Install_WAITING_FOR_PXE || string(i.GetMediumSha256()) != string(two) ||
		i.GetMediumServer() != "http://10.0.0.1:7404" {
		t.Fatalf("got %v, %v, want the session with its second medium", i, err)
	}
	if r := getRun(t, p, "run-q"); r.GetWait().GetKind() != holdfastv1.Wait_INSTALLER ||
		r.GetWait().GetValue() != "virtual-medium" {
		t.Errorf("the run waits for %v", r.GetWait())
	}
	do(t, p, &internalv1.ReportInstall{Sha256: two, Report: &holdfastv1.ReportInstallRequest{Status: "complete"}})
	refused(t, p, made(fsmtest.TokenValue("three")), fsm.Aborted, fsm.ReasonNoInstall)
	end(t, p, "run-q", succeeded)
	if _, err := p.View().InstallByToken(two); err == nil {
		t.Error("the token of a medium is good after the end of its attempt")
	}
}

// An open session protects its image, whatever the machine's present label, and the
// installer. The error names the sessions. An installer that cannot boot may be replaced,
// because the sessions wait for that.
func TestImagesOfSessions(t *testing.T) {
	p := nodeIn(t, pending)
	kernel := func(cmdline string, boots bool) *holdfastv1.Image {
		i := diskImage("installer")
		i.Cmdline = cmdline
		if boots {
			i.Kernel, i.Initrd = i.GetDisk(), i.GetDisk()
		}
		return i
	}
	do(t, p, &internalv1.PutImage{Image: kernel("", false)})
	do(t, p, &internalv1.PutImage{Image: diskImage("debian")})
	do(t, p, &internalv1.PutImage{Image: diskImage("other")})
	start(t, p, "m-1", "q", "", "ubuntu")
	begin(t, p, "run-q")
	do(t, p, &internalv1.OpenInstall{RunId: "run-q", Step: getRun(t, p, "run-q").GetCurrentStep(), Attempt: 1,
		Image: "debian"})
	do(t, p, &internalv1.PutImage{Image: kernel("", true), Replace: true})
	for _, name := range []string{"debian", "installer"} {
		err := refused(t, p, &internalv1.DeleteImage{Name: name}, fsm.FailedPrecondition, fsm.ReasonImageInUse)
		if !strings.Contains(err.Message, "m-1 (run run-q, waiting-for-pxe)") {
			t.Errorf("%s: the refusal does not name the session: %s", name, err.Message)
		}
	}
	refused(t, p, &internalv1.PutImage{Image: kernel("quiet", true), Replace: true}, fsm.FailedPrecondition,
		fsm.ReasonImageInUse)
	do(t, p, &internalv1.DeleteImage{Name: "other"})
	var names []string
	for i := range p.View().Installs("") {
		names = append(names, i.GetMachineId())
	}
	if len(names) != 1 || names[0] != "m-1" {
		t.Errorf("sessions: %q, want that of m-1", names)
	}
	do(t, p, &internalv1.CancelRun{RunId: "run-q"})
	end(t, p, "run-q", holdfastv1.Attempt_CANCELED)
	do(t, p, &internalv1.DeleteImage{Name: "debian"})
	do(t, p, &internalv1.DeleteImage{Name: "installer"})
}

// TestRunningInstallGetsNoToken checks that a boot script request while the installer runs
// changes nothing, whether it comes from a probe, a second network card or a caller that
// knows the MAC address. A machine that restarted gets a script after a while without
// reports.
func TestRunningInstallGetsNoToken(t *testing.T) {
	p := nodeIn(t, pending)
	start(t, p, "m-1", "q", "", "ubuntu")
	begin(t, p, "run-q")
	do(t, p, &internalv1.OpenInstall{RunId: "run-q", Step: getRun(t, p, "run-q").GetCurrentStep(), Attempt: 1,
		Image: "debian"})
	report := func(token, status string) *internalv1.ReportInstall {
		return &internalv1.ReportInstall{Sha256: fsmtest.TokenValue(token),
			Report: &holdfastv1.ReportInstallRequest{Status: status, Progress: 50, HasProgress: true}}
	}
	do(t, p, &internalv1.BootInstall{MachineId: "m-1", Sha256: fsmtest.TokenValue("own"), IpAddress: "10.0.0.5"})
	for i := range 8 { // scripts requested before its first report do not displace the installer's token
		do(t, p, &internalv1.BootInstall{MachineId: "m-1", Sha256: fsmtest.TokenValue(fmt.Sprint("early-", i)),
			IpAddress: "10.0.0.66"})
	}
	do(t, p, report("own", "started"))
	do(t, p, report("own", "progress"))
	do(t, p, &internalv1.AppendInstallLog{Sha256: fsmtest.TokenValue("own"), Data: []byte("partitioned\n")})
	before, _ := p.View().Install("m-1")
	for range 4 {
		refused(t, p, &internalv1.BootInstall{MachineId: "m-1", Sha256: fsmtest.TokenValue("evil"), IpAddress: "10.0.0.66"},
			fsm.Aborted, fsm.ReasonNoInstall)
	}
	after, _ := p.View().Install("m-1")
	if diff := cmp.Diff(before, after, protocmp.Transform()); diff != "" {
		t.Errorf("the session changed (-before +after):\n%s", diff)
	}
	do(t, p, &internalv1.AppendInstallLog{Sha256: fsmtest.TokenValue("own"), Offset: 12, Data: []byte("written\n")})
	do(t, p, report("own", "progress"))

	p.Now = p.Now.Add(fsm.InstallerSilence)
	do(t, p, &internalv1.BootInstall{MachineId: "m-1", Sha256: fsmtest.TokenValue("restarted"), IpAddress: "10.0.0.5"})
	if i, _ := p.View().Install("m-1"); i.GetStage() != holdfastv1.Install_BOOTED_IPXE || i.GetProgress() != 0 {
		t.Errorf("after a restart the session is %v, want it to begin again", i)
	}
	do(t, p, report("restarted", "complete"))
}
