package sessions

import (
	"bytes"
	"crypto/sha256"
	"iter"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	"github.com/holdfast-metal/holdfast/fsm/internal/table"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// An install session leads a machine that boots from the network to its image. The machine
// has no login yet, and is known by its MAC address only. The step that installs opens the
// session, the machine requests its boot script, the installer reports, and the session ends
// with the attempt. A machine has at most one session. It outlives leaders: a new leader
// continues it.
//
// Its tokens are generated with each boot script, because their values are not stored. A
// machine may request the script more than once (iPXE retries, a power loss), so the last few
// tokens are valid.

// The reasons for refusing an installer's calls.
const (
	ReasonInstallToken = "INSTALL_TOKEN" // the token is unknown
	ReasonInstallOver  = "INSTALL_OVER"  // its session has ended
	ReasonNoInstall    = "NO_INSTALL"    // no session of the machine waits for a boot
	ReasonInstallTaken = "INSTALL_TAKEN" // an installer with another token reports in its session
)

// InstallOpen reports whether a session and its attempt have not ended.
func InstallOpen(i *holdfastv1.Install) bool { return i != nil && i.GetClosedAt() == nil }

// InstallBoots reports whether a machine that requests its boot script boots the installer.
func InstallBoots(i *holdfastv1.Install) bool {
	switch i.GetStage() {
	case holdfastv1.Install_COMPLETE, holdfastv1.Install_BOOTED_DISK, holdfastv1.Install_FAILED:
		return false
	}
	return InstallOpen(i)
}

// InstallerSilence is the time without a report after which a boot script is served to the
// machine again. The installer reports every 5 s. A machine that restarts during an install
// retries until then.
const InstallerSilence = 30 * time.Second

// InstallerRuns reports whether the installer of a session has started and reported within
// InstallerSilence. While it runs no other token is issued: a caller that knows the MAC
// address could end the install or report in its name.
func InstallerRuns(i *holdfastv1.Install, now time.Time) bool {
	switch i.GetStage() {
	case holdfastv1.Install_INSTALLER_STARTED, holdfastv1.Install_WRITING:
		return InstallOpen(i) && now.Sub(i.GetLastSeenAt().AsTime()) < InstallerSilence
	}
	return false
}

// StageMedium is the stage of a wait for a machine that boots a virtual medium.
const StageMedium = "virtual-medium"

// InstallWait returns the wait for the end of a session's stage.
func InstallWait(i *holdfastv1.Install) *holdfastv1.Wait {
	at := StageName(i.GetStage())
	if i.GetStage() == holdfastv1.Install_WAITING_FOR_PXE && len(i.GetMediumSha256()) > 0 {
		at = StageMedium
	}
	return &holdfastv1.Wait{Kind: holdfastv1.Wait_INSTALLER, Value: at}
}

// StageName returns a stage as text: waiting-for-pxe.
func StageName(s holdfastv1.Install_Stage) string {
	return strings.ReplaceAll(strings.ToLower(s.String()), "_", "-")
}

// CloseInstall ends the session of a run's attempt. Its tokens become invalid.
func CloseInstall(t *core.Tx, run *holdfastv1.Run) {
	s, ok := t.Installs.Edit(run.GetMachineId())
	if i := s.GetInstall(); ok && i.GetRunId() == run.GetRunId() && InstallOpen(i) {
		i.ClosedAt = t.Now
		t.Installs.Put(s)
	}
}

// InstallByToken returns the session of a token, and whether the token is valid and whether
// it is known.
func InstallByToken(s *core.State, sum []byte) (in *internalv1.StoredInstall, good, known bool) {
	if len(sum) != sha256.Size {
		return nil, false, false
	}
	for _, in := range s.Installs.Scan(schema.InstallsByToken, schema.HashKey(sum), "") {
		for _, g := range in.GetGood() {
			if bytes.Equal(g, sum) { // hashes of random values: timing reveals nothing
				return in, InstallOpen(in.GetInstall()), true
			}
		}
		for _, p := range in.GetPast() {
			if bytes.Equal(p, sum) {
				return in, false, true
			}
		}
	}
	return nil, false, false
}

// AdmitInstaller returns the open session of a valid token.
func AdmitInstaller(s *core.State, sum []byte) (*internalv1.StoredInstall, *refusal.Error) {
	in, good, known := InstallByToken(s, sum)
	switch {
	case !known:
		return nil, refusal.New(refusal.Unauthenticated, ReasonInstallToken,
			"unknown install token: boot the machine from the network again")
	case !good:
		return nil, refusal.New(refusal.OutOfRange, ReasonInstallOver,
			"the install session of machine %q for this token has ended: boot the machine again",
			in.GetInstall().GetMachineId()).
			With("machine_id", in.GetInstall().GetMachineId())
	case len(in.GetBound()) > 0 && !bytes.Equal(in.GetBound(), sum):
		return nil, refusal.New(refusal.PermissionDenied, ReasonInstallTaken,
			"another installer reports in the install session of machine %q: "+
				"boot the machine again if this is the right one",
			in.GetInstall().GetMachineId()).With("machine_id", in.GetInstall().GetMachineId())
	}
	return in, nil
}

// Install returns the open install session of a machine, or the last one.
func (v *View) Install(machineID string) (*holdfastv1.Install, bool) {
	s, ok := v.s.Installs.Get(machineID)
	return s.GetInstall(), ok
}

// Installs returns the last install session of each machine with an id above after, by
// machine.
func (v *View) Installs(after string) iter.Seq[*holdfastv1.Install] {
	return table.Map(v.s.Installs.Ascend("", after), (*internalv1.StoredInstall).GetInstall)
}

// InstallByToken returns the open session of the valid token with this SHA-256.
func (v *View) InstallByToken(sum []byte) (*holdfastv1.Install, *refusal.Error) {
	s, err := AdmitInstaller(v.s, sum)
	return s.GetInstall(), err
}
