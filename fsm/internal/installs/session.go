// Package installs has the commands about installs: the sessions that an executor opens, the
// reports of installers and nodes, and the runs that only reports advance. It must not advance a
// run that the executor drives.
package installs

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/fleet"
	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	"github.com/holdfast-metal/holdfast/fsm/internal/lifecycle"
	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	"github.com/holdfast-metal/holdfast/fsm/internal/runs"
	"github.com/holdfast-metal/holdfast/fsm/internal/sessions"
	"github.com/holdfast-metal/holdfast/fsm/internal/shallow"
	"github.com/holdfast-metal/holdfast/proto/holdfast/stepkind"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Limits of a session.
const (
	// Valid tokens of a session: a caller that requests scripts must not displace the installer's
	// token.
	goodTokens     = 16
	pastTokens     = 16 // past tokens, for a clear error
	maxInstallText = 64 << 10
	maxInstallLog  = 256 << 10 // bytes in one command
)

// OpenInstall opens the session of an open attempt. If the attempt has one already, it
// returns that.
func OpenInstall(t *core.Tx, c *internalv1.OpenInstall) (*holdfastv1.Install, *refusal.Error) {
	run, step, _, err := runs.OpenAttempt(t, c.GetRunId(), c.GetStep(), c.GetAttempt())
	if err != nil {
		return nil, err
	}
	if k := step.GetKind(); !stepkind.Named(k).GetInstalls() {
		return nil, refusal.InvalidField("step", "%q is of kind %s, which installs nothing", step.GetName(), k)
	}
	if len(c.GetCloudInit()) > maxInstallText || len(c.GetDisk()) > fleet.MaxNodeText ||
		len(c.GetImage()) > fleet.MaxNodeText {
		return nil, refusal.InvalidField("cloud_init", "has %d bytes, at most %d are allowed, and %d of image and disk",
			len(c.GetCloudInit()), maxInstallText, fleet.MaxNodeText)
	}
	m, ok := t.Machines.Get(run.GetMachineId())
	if !ok {
		return nil, fleet.MachineNotFound(run.GetMachineId())
	}
	if len(m.GetSpec().GetMacAddresses()) == 0 {
		return nil, refusal.New(refusal.FailedPrecondition, "NO_MAC_ADDRESS",
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
	s := &internalv1.StoredInstall{Install: i, Past: lastOf(slices.Concat(old.GetPast(), old.GetGood()), pastTokens)}
	stage(t, s, holdfastv1.Install_WAITING_FOR_PXE, "")
	return i, nil
}

func lastOf(sums [][]byte, n int) [][]byte { return sums[max(0, len(sums)-n):] }

// stage moves a session to a stage, stores it and makes the run wait for the next one. The session
// must not change any more. The event has a message only if something else has happened.
func stage(t *core.Tx, s *internalv1.StoredInstall, stage holdfastv1.Install_Stage, happened string) {
	i := s.GetInstall()
	i.Stage, i.StageSince = stage, t.Now
	t.Installs.Put(s)
	run, ok := t.Runs.Get(i.GetRunId())
	if !ok || lifecycle.Ended(run) {
		return
	}
	run = shallow.Run(run)
	runs.Await(t, run, sessions.InstallWait(i))
	if happened != "" {
		happened = fmt.Sprintf("step %s: %s", i.GetStep(), happened)
	}
	runs.PutRun(t, run, happened)
}

// BootInstall records that a machine has requested its boot script, and the token in it.
func BootInstall(t *core.Tx, c *internalv1.BootInstall) (*holdfastv1.Install, *refusal.Error) {
	s, ok := t.Installs.Edit(c.GetMachineId())
	i := s.GetInstall()
	if !ok || !sessions.InstallBoots(i) {
		return nil, refusal.New(refusal.Aborted, sessions.ReasonNoInstall,
			"no install session of machine %q waits for a boot",
			lex.Ident(c.GetMachineId()))
	}
	if sessions.InstallerRuns(i, t.Now.AsTime()) {
		return nil, refusal.New(refusal.Aborted, sessions.ReasonNoInstall,
			"the installer of machine %q is running: a boot script is served again after %s without a report",
			lex.Ident(c.GetMachineId()), sessions.InstallerSilence)
	}
	i.LastSeenAt, i.Note = t.Now, lex.Clip(c.GetNote(), core.MaxNote)
	if ip := c.GetIpAddress(); ip != "" {
		i.IpAddress = lex.Clip(ip, fleet.MaxNodeText)
	}
	if len(c.GetSha256()) == 0 {
		t.Installs.Put(s)
		return i, nil
	}
	if err := addToken(t, s, c.GetSha256()); err != nil {
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

// addToken adds a valid token to a session. The caller stores the session.
func addToken(t *core.Tx, s *internalv1.StoredInstall, sum []byte) *refusal.Error {
	if len(sum) != sha256.Size {
		return refusal.InvalidField("sha256", "has %d bytes, want %d", len(sum), sha256.Size)
	}
	if _, _, taken := sessions.InstallByToken(t.State, sum); taken {
		return refusal.New(refusal.Aborted, refusal.ReasonIDTaken, "the generated token is in use")
	}
	s.Good, s.Bound = append(s.GetGood(), sum), nil
	if over := len(s.GetGood()) - goodTokens; over > 0 {
		s.Past, s.Good = lastOf(append(s.GetPast(), s.GetGood()[:over]...), pastTokens), s.GetGood()[over:]
	}
	return nil
}

// NoteInstallSession records the leader's observations of the machine. It refuses those of
// another attempt.
func NoteInstallSession(t *core.Tx, c *internalv1.NoteInstall) (*holdfastv1.Install, *refusal.Error) {
	run, _, _, err := runs.OpenAttempt(t, c.GetRunId(), c.GetStep(), c.GetAttempt())
	if err != nil {
		return nil, err
	}
	s, ok := t.Installs.Edit(run.GetMachineId())
	i := s.GetInstall()
	if !ok || !sessions.InstallOpen(i) || i.GetRunId() != c.GetRunId() || i.GetStep() != c.GetStep() ||
		i.GetAttempt() != c.GetAttempt() {
		return nil, refusal.New(refusal.FailedPrecondition, sessions.ReasonNoInstall,
			"attempt %d of step %q of run %s has no install session",
			c.GetAttempt(), c.GetStep(), c.GetRunId())
	}
	if sum := c.GetMediumSha256(); len(sum) > 0 {
		if len(c.GetMediumServer()) > fleet.MaxNodeText {
			return nil, refusal.InvalidField("medium_server", "has %d bytes, at most %d are allowed",
				len(c.GetMediumServer()), fleet.MaxNodeText)
		}
		if !sessions.InstallBoots(i) {
			return nil, refusal.New(refusal.Aborted, sessions.ReasonNoInstall,
				"the install session of machine %q does not wait for a boot", i.GetMachineId())
		}
		if err := addToken(t, s, sum); err != nil {
			return nil, err
		}
		i.MediumSha256, i.MediumServer = sum, c.GetMediumServer()
		stage(t, s, holdfastv1.Install_WAITING_FOR_PXE, "a boot medium is made")
		s, _ = t.Installs.Edit(i.GetMachineId())
		i = s.GetInstall()
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
