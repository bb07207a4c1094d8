package fsm

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/fleet"
	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	"github.com/holdfast-metal/holdfast/fsm/internal/lifecycle"
	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
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

// Limits of a session.
const (
	goodTokens = 4 // valid tokens of a session, before feature level 2
	// Since feature level 2: a caller that requests scripts must not displace the installer's
	// token.
	moreGoodTokens = 16
	pastTokens     = 16 // past tokens, for a clear error
	maxInstallText = 64 << 10
	maxHostKeys    = 16
	maxInstallLog  = 256 << 10 // bytes in one command
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

// InstallStage returns what a session waits for next, as text.
func InstallStage(i *holdfastv1.Install) string {
	switch i.GetStage() {
	case holdfastv1.Install_WAITING_FOR_PXE:
		if len(i.GetMediumSha256()) > 0 {
			return "the installer to start from the virtual medium"
		}
		return "the machine to ask for its boot script"
	case holdfastv1.Install_BOOTED_IPXE:
		return "the installer to start"
	case holdfastv1.Install_INSTALLER_STARTED:
		return "the installer to write the image"
	case holdfastv1.Install_WRITING:
		return "the image to be written"
	case holdfastv1.Install_COMPLETE:
		return "the machine to boot from its disk"
	case holdfastv1.Install_BOOTED_DISK:
		return "nothing: the installed system was seen"
	case holdfastv1.Install_FAILED:
		return "nothing: the install has failed"
	}
	return "nothing"
}

// StageName returns a stage as text: waiting-for-pxe.
func StageName(s holdfastv1.Install_Stage) string {
	return strings.ReplaceAll(strings.ToLower(s.String()), "_", "-")
}

// openInstall opens the session of an open attempt. If the attempt has one already, it
// returns that.
func openInstall(t *core.Tx, c *internalv1.OpenInstall) (*holdfastv1.Install, *Error) {
	run, step, _, err := openAttempt(t, c.GetRunId(), c.GetStep(), c.GetAttempt())
	if err != nil {
		return nil, err
	}
	if k := step.GetKind(); k != "repave" && k != "rma" {
		return nil, invalid("step", "%q is of kind %s, which installs nothing", step.GetName(), k)
	}
	if len(c.GetCloudInit()) > maxInstallText ||
		len(c.GetDisk()) > fleet.MaxNodeText || len(c.GetImage()) > fleet.MaxNodeText {
		return nil, invalid("cloud_init", "has %d bytes, at most %d are allowed, and %d of image and disk",
			len(c.GetCloudInit()), maxInstallText, fleet.MaxNodeText)
	}
	m, ok := t.Machines.Get(run.GetMachineId())
	if !ok {
		return nil, fleet.MachineNotFound(run.GetMachineId())
	}
	if len(m.GetSpec().GetMacAddresses()) == 0 {
		return nil, refuse(FailedPrecondition, "NO_MAC_ADDRESS",
			"machine %q has no MAC address, so it cannot be recognized when it boots: set spec.mac_addresses",
			m.GetMachineId())
	}
	old, exists := t.Installs.Get(m.GetMachineId())
	if i := old.GetInstall(); exists && i.GetRunId() == c.GetRunId() && i.GetStep() == c.GetStep() &&
		i.GetAttempt() == c.GetAttempt() {
		return i, nil
	}
	i := &holdfastv1.Install{
		MachineId: m.GetMachineId(),
		RunId:     c.GetRunId(),
		Step:      c.GetStep(),
		Attempt:   c.GetAttempt(),
		Image:     c.GetImage(),
		Disk:      c.GetDisk(),
		Wipe:      c.GetWipe(),
		CloudInit: c.GetCloudInit(),
		Macs:      m.GetSpec().GetMacAddresses(),
		OpenedAt:  t.Now,
	}
	s := &internalv1.StoredInstall{Install: i, Past: lastOf(append(old.GetPast(), old.GetGood()...), pastTokens)}
	stage(t, s, holdfastv1.Install_WAITING_FOR_PXE, "")
	return i, nil
}

func lastOf(sums [][]byte, n int) [][]byte { return sums[max(0, len(sums)-n):] }

// stage moves a session to a stage, stores it and updates the run's waiting_for.
func stage(t *core.Tx, s *internalv1.StoredInstall, stage holdfastv1.Install_Stage, what string) {
	i := s.GetInstall()
	i.Stage, i.StageSince = stage, t.Now
	t.Installs.Put(s)
	run, ok := t.Runs.Get(i.GetRunId())
	if !ok || lifecycle.Ended(run) {
		return
	}
	run.WaitingFor, run.WaitingSince = InstallStage(i), t.Now
	putRun(t, run, fmt.Sprintf("step %s: %s", i.GetStep(), lex.First(what, "waiting for "+InstallStage(i))))
}

// closeInstall ends the session of a run's attempt. Its tokens become invalid.
func closeInstall(t *core.Tx, run *holdfastv1.Run) {
	s, ok := t.Installs.Get(run.GetMachineId())
	if i := s.GetInstall(); ok && i.GetRunId() == run.GetRunId() && InstallOpen(i) {
		i.ClosedAt = t.Now
		t.Installs.Put(s)
	}
}

// bootInstall records that a machine has requested its boot script, and the token in it.
func bootInstall(t *core.Tx, c *internalv1.BootInstall) (*holdfastv1.Install, *Error) {
	s, ok := t.Installs.Get(c.GetMachineId())
	i := s.GetInstall()
	if !ok || !InstallBoots(i) {
		return nil, refuse(Aborted, ReasonNoInstall, "no install session of machine %q waits for a boot",
			lex.Ident(c.GetMachineId()))
	}
	if t.Has(core.Level2) && InstallerRuns(i, t.Now.AsTime()) {
		return nil, refuse(Aborted, ReasonNoInstall,
			"the installer of machine %q is running: a boot script is served again after %s without a report",
			lex.Ident(c.GetMachineId()), InstallerSilence)
	}
	i.LastSeenAt, i.Note = t.Now, lex.Clip(c.GetNote(), core.MaxNote)
	if ip := c.GetIpAddress(); ip != "" {
		i.IpAddress = lex.Clip(ip, fleet.MaxNodeText)
	}
	if len(c.GetSha256()) == 0 {
		t.Installs.Put(s)
		return i, nil
	}
	if err := letInstall(t, s, c.GetSha256()); err != nil {
		return nil, err
	}
	i.Boots++
	if i.GetBootedAt() == nil {
		i.BootedAt = t.Now
	}
	i.Progress, i.Detail = 0, ""
	// A restarted installer begins its log at 0, and its output is new.
	i.LogBytes = 0
	what := "the machine has its boot script"
	if i.GetBoots() > 1 {
		what = fmt.Sprintf("the machine has its boot script again (%d times now)", i.GetBoots())
	}
	stage(t, s, holdfastv1.Install_BOOTED_IPXE, what)
	return i, nil
}

// letInstall adds a valid token to a session. The caller stores the session.
func letInstall(t *core.Tx, s *internalv1.StoredInstall, sum []byte) *Error {
	if len(sum) != sha256.Size {
		return invalid("sha256", "has %d bytes, want %d", len(sum), sha256.Size)
	}
	if _, _, taken := installByToken(t.State, sum); taken {
		return refuse(Aborted, ReasonIDTaken, "the generated token is in use")
	}
	s.Good, s.Bound = append(s.GetGood(), sum), nil
	most := goodTokens
	if t.Has(core.Level2) {
		most = moreGoodTokens
	}
	if over := len(s.GetGood()) - most; over > 0 {
		s.Past, s.Good = lastOf(append(s.GetPast(), s.GetGood()[:over]...), pastTokens), s.GetGood()[over:]
	}
	return nil
}

// installByToken returns the session of a token, and whether the token is valid and whether
// it is known.
func installByToken(s *core.State, sum []byte) (in *internalv1.StoredInstall, good, known bool) {
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

// admitInstaller returns the open session of a valid token.
func admitInstaller(s *core.State, sum []byte) (*internalv1.StoredInstall, *Error) {
	in, good, known := installByToken(s, sum)
	switch {
	case !known:
		return nil, refuse(Unauthenticated, ReasonInstallToken,
			"unknown install token: boot the machine from the network again")
	case !good:
		return nil, refuse(OutOfRange, ReasonInstallOver,
			"the install session of machine %q for this token has ended: boot the machine again",
			in.GetInstall().GetMachineId()).
			With("machine_id", in.GetInstall().GetMachineId())
	case len(in.GetBound()) > 0 && !bytes.Equal(in.GetBound(), sum):
		return nil, refuse(PermissionDenied, ReasonInstallTaken,
			"another installer reports in the install session of machine %q: "+
				"boot the machine again if this is the right one",
			in.GetInstall().GetMachineId()).With("machine_id", in.GetInstall().GetMachineId())
	}
	return in, nil
}

// noteInstallSession records the leader's observations of the machine. It refuses those of
// another attempt.
func noteInstallSession(t *core.Tx, c *internalv1.NoteInstall) (*holdfastv1.Install, *Error) {
	run, _, _, err := openAttempt(t, c.GetRunId(), c.GetStep(), c.GetAttempt())
	if err != nil {
		return nil, err
	}
	s, ok := t.Installs.Get(run.GetMachineId())
	i := s.GetInstall()
	if !ok || !InstallOpen(i) || i.GetRunId() != c.GetRunId() || i.GetStep() != c.GetStep() ||
		i.GetAttempt() != c.GetAttempt() {
		return nil, refuse(FailedPrecondition, ReasonNoInstall,
			"attempt %d of step %q of run %s has no install session",
			c.GetAttempt(), c.GetStep(), c.GetRunId())
	}
	if sum := c.GetMediumSha256(); len(sum) > 0 {
		if len(c.GetMediumServer()) > fleet.MaxNodeText {
			return nil, invalid("medium_server", "has %d bytes, at most %d are allowed",
				len(c.GetMediumServer()), fleet.MaxNodeText)
		}
		if !InstallBoots(i) {
			return nil, refuse(Aborted, ReasonNoInstall,
				"the install session of machine %q does not wait for a boot", i.GetMachineId())
		}
		if err := letInstall(t, s, sum); err != nil {
			return nil, err
		}
		i.MediumSha256, i.MediumServer = sum, c.GetMediumServer()
		stage(t, s, holdfastv1.Install_WAITING_FOR_PXE, "a boot medium is made")
	}
	i.PowerOffSeen = i.GetPowerOffSeen() || c.GetPowerOffSeen()
	i.PowerOnSeen = i.GetPowerOnSeen() || c.GetPowerOnSeen()
	if c.GetDiskBooted() && i.GetStage() == holdfastv1.Install_COMPLETE {
		i.DiskBootedAt = t.Now
		stage(t, s, holdfastv1.Install_BOOTED_DISK, "the installed system answers")
		return i, nil
	}
	t.Installs.Put(s)
	return i, nil
}

// Install returns the open install session of a machine, or the last one.
func (v *View) Install(machineID string) (*holdfastv1.Install, bool) {
	s, ok := v.state.Installs.Get(machineID)
	return s.GetInstall(), ok
}

// Installs returns the last install session of each machine with an id above after, by
// machine.
func (v *View) Installs(after string) iter.Seq[*holdfastv1.Install] {
	return func(yield func(*holdfastv1.Install) bool) {
		for s := range v.state.Installs.Ascend("", after) {
			if !yield(s.GetInstall()) {
				return
			}
		}
	}
}

// InstallByToken returns the open session of the valid token with this SHA-256.
func (v *View) InstallByToken(sum []byte) (*holdfastv1.Install, *Error) {
	s, err := admitInstaller(v.state, sum)
	return s.GetInstall(), err
}
