// Package netboot installs machines that boot from the network. It opens an install session and
// derives the state of the install from it (docs/netboot.md).
//
// The session is replicated; the machine and its installer update it through any peer. So a new
// leader has nothing to find out and nothing to repeat. A first attempt presses no button, because
// the earlier steps of the plan have set the boot device and rebooted the machine. A retry finds
// the machine in any state, and boots it from the network again. The package knows nothing of iPXE,
// HTTP or the storage of sessions.
package netboot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/internal/settings"
)

// Sessions stores install sessions where the next leader finds them.
type Sessions interface {
	// Session returns the last session of a machine, or nil. It does not block.
	Session(machineID string) *holdfastv1.Install
	// Open opens the session of an attempt, unless it exists.
	Open(ctx context.Context, op providers.Op, spec providers.InstallSpec) error
	// Note records observations of the machine in a session.
	Note(ctx context.Context, i *holdfastv1.Install, seen Seen) error
}

// Seen has the observations of a machine other than its installer's reports.
type Seen struct {
	DiskBooted        bool // the installed system answers
	PowerOff, PowerOn bool // of a retry that boots the machine again, or of a boot medium

	MediumSHA256 []byte // of the token on a boot medium about to be inserted; nil for none
	MediumServer string // base URL of the peers on that medium
}

// Buttons has the capabilities that a retry needs.
type Buttons interface {
	providers.PowerController
	providers.BootController
}

// Config limits the time of each stage. Zero is the default. A stage never lasts longer than its
// step: if the context of InstallStatus ends sooner, the stage fails a moment before, with the same
// error.
type Config struct {
	Boot    time.Duration // until the request for the boot script; default 15 min, for memory tests
	Start   time.Duration // from there until the installer reports; default 5 min
	Silence time.Duration // between two heartbeats of the installer; default 5 min
	Disk    time.Duration // until the installed system answers; default 15 min
}

func (c Config) withDefaults() Config {
	settings.Default(&c.Boot, 15*time.Minute)
	settings.Default(&c.Start, 5*time.Minute)
	settings.Default(&c.Silence, 5*time.Minute)
	settings.Default(&c.Disk, 15*time.Minute)
	return c
}

// Imager installs machines. It implements providers.Imager.
type Imager struct {
	cfg      Config
	sessions Sessions
	buttons  Buttons
	host     providers.Inspector // nil: the installed system cannot be inspected
	now      func() time.Time
}

// New returns an Imager.
func New(cfg Config, s Sessions, b Buttons, host providers.Inspector) *Imager {
	return &Imager{cfg: cfg.withDefaults(), sessions: s, buttons: b, host: host, now: time.Now}
}

// BootsInstaller returns true: a machine that was booted for an install does not answer until it is
// installed. Only its power can be observed.
func (p *Imager) BootsInstaller() bool { return true }

func token(i *holdfastv1.Install) string {
	return providers.Op{RunID: i.GetRunId(), Step: i.GetStep(), Attempt: i.GetAttempt()}.Token()
}

// session returns the session of a token, or nil.
func (p *Imager) session(m providers.Machine, tok string) *holdfastv1.Install {
	if i := p.sessions.Session(m.GetMachineId()); i != nil && token(i) == tok {
		return i
	}
	return nil
}

// StartInstall opens the session, or presses the button that a retry needs.
func (p *Imager) StartInstall(
	ctx context.Context, op providers.Op, m providers.Machine, spec providers.InstallSpec,
) error {
	i := p.session(m, op.Token())
	if i == nil {
		if spec.Image == "" { // refuse it before a button is pressed, because the installer would
			return providers.Errorf(providers.Unsupported, "install "+m.GetMachineId(),
				"no image given, and the installer only erases a disk to write one: "+
					"erase disks from the host (provider datacenter)")
		}
		return p.sessions.Open(ctx, op, spec)
	}
	switch due, err := p.due(providers.Unhurried(ctx), m, i); {
	case err != nil:
		return err
	case due == dueOff:
		if err := bootFrom(ctx, p.buttons, op, m, cmp.Or(spec.Boot, "PXE")); err != nil {
			return err
		}
		return press(ctx, p.buttons, op, m, providers.ActionHardOff)
	case due == dueOn:
		return press(ctx, p.buttons, op, m, providers.ActionOn)
	}
	return nil
}

// The due actions of a retry.
const (
	dueOff = "boot from the network, power off: the machine is in the state that the last attempt left"
	dueOn  = "power on"
)

// due returns the due action, or "". It converges: a press shows in the power state, and "was off"
// is recorded before the machine is powered on.
func (p *Imager) due(ctx context.Context, m providers.Machine, i *holdfastv1.Install) (string, error) {
	if i.GetAttempt() < 2 || i.GetStage() != holdfastv1.Install_WAITING_FOR_PXE || i.GetPowerOnSeen() {
		return "", nil
	}
	state, err := p.buttons.PowerState(ctx, m)
	if err != nil {
		return "", err
	}
	switch on := state == providers.PowerOn; {
	case on && !i.GetPowerOffSeen():
		return dueOff, nil
	case on:
		return "", p.sessions.Note(ctx, i, Seen{PowerOn: true})
	case state != providers.PowerOff: // in transition, or unknown to the BMC
		return "", nil
	case !i.GetPowerOffSeen():
		return "", p.sessions.Note(ctx, i, Seen{PowerOff: true})
	}
	return dueOn, nil
}

// InstallStatus returns the state of the install, from the session.
func (p *Imager) InstallStatus(
	ctx context.Context, m providers.Machine, tok string,
) (providers.InstallStatus, error) {
	i := p.session(m, tok)
	if i == nil {
		return providers.InstallStatus{State: providers.WorkNone}, nil
	}
	st := providers.InstallStatus{
		State:    providers.WorkRunning,
		Progress: int(i.GetProgress()),
		Image:    i.GetImage(),
	}
	fail := func(format string, args ...any) (providers.InstallStatus, error) {
		st.State, st.Error = providers.WorkFailed, fmt.Sprintf(format, args...)
		return st, nil
	}
	now := p.now()
	switch i.GetStage() {
	case holdfastv1.Install_WAITING_FOR_PXE:
		st.Stage = "the machine to ask for its boot script"
		if i.GetNote() != "" {
			st.Stage += ": " + i.GetNote()
		}
		if over := limited(ctx, i, i.GetStageSince(), p.cfg.Boot).over(now); over != "" {
			return fail("the machine has not booted from the network in %s%s: check whether its boot device is "+
				"PXE or HTTP, whether the DHCP server answers it, and whether it boots from one of the cards %s",
				over, noted(i), strings.Join(i.GetMacs(), ", "))
		}
		due, err := p.due(ctx, m, i)
		st.Due, st.Press = due, due != ""
		return st, err
	case holdfastv1.Install_BOOTED_IPXE:
		st.Stage = "the installer to start"
		if over := limited(ctx, i, i.GetStageSince(), p.cfg.Start).over(now); over != "" {
			return fail("the installer has not reported in %s after the machine got its boot script (%d times, "+
				"last seen %s at %s): check on its console whether the kernel has a driver for its network card, "+
				"and whether it reaches the peers over HTTP",
				over, i.GetBoots(), clock(i), cmp.Or(i.GetIpAddress(), unknownPlace))
		}
	case holdfastv1.Install_INSTALLER_STARTED, holdfastv1.Install_WRITING:
		st.Stage, st.Erases = "the installer to finish", true // a peer has let it begin
		if i.GetDetail() != "" {
			st.Stage += ", which is at: " + i.GetDetail()
		}
		l := limited(ctx, i, i.GetLastSeenAt(), p.cfg.Silence)
		switch over := l.over(now); {
		case over != "" && l.ofStep:
			return fail("the installer was not done in %s: last seen %s at %s, %d %% done, at %s",
				over, clock(i), cmp.Or(i.GetIpAddress(), unknownPlace), i.GetProgress(), cmp.Or(i.GetDetail(), unknownPlace))
		case over != "":
			return fail("no report of the installer for %s: last seen %s at %s, %d %% done, at %s: check its "+
				"console, its network and its power",
				over, clock(i), cmp.Or(i.GetIpAddress(), unknownPlace), i.GetProgress(), cmp.Or(i.GetDetail(), unknownPlace))
		}
	case holdfastv1.Install_COMPLETE:
		return p.booted(ctx, m, i, st)
	case holdfastv1.Install_BOOTED_DISK:
		st.State, st.Stage, st.Progress = providers.WorkDone, "done", 100
	case holdfastv1.Install_FAILED:
		return fail("%s", i.GetError())
	}
	return st, nil
}

// booted checks whether the installed system runs: it answers with the host key that its installer
// has made. If no login is possible, the end of the installer counts.
func (p *Imager) booted(
	ctx context.Context, m providers.Machine, i *holdfastv1.Install, st providers.InstallStatus,
) (providers.InstallStatus, error) {
	st.Stage, st.Progress, st.Erases = "the machine to boot from its disk", 100, true
	if p.host == nil || m.GetSpec().GetSshEndpoint() == "" || i.GetImage() == "" {
		st.State, st.Stage = providers.WorkDone, "done"
		return st, nil
	}
	f, err := p.host.Inspect(ctx, m)
	switch {
	case err == nil && f.Reachable:
		if err := p.sessions.Note(ctx, i, Seen{DiskBooted: true}); err != nil {
			return st, err
		}
		st.State, st.Stage = providers.WorkDone, "done"
		return st, nil
	case err == nil:
		err = errors.New(f.ReachableReason)
	}
	st.Stage += " (no answer of the installed system at " + m.GetSpec().GetSshEndpoint() + ": " + err.Error() + ")"
	if over := limited(ctx, i, i.GetStageSince(), p.cfg.Disk).over(p.now()); over != "" {
		st.State = providers.WorkFailed
		st.Error = fmt.Sprintf("the image was written, but the installed system has not answered at %s in "+
			"%s (%v): check its console, whether it boots from its disk, its network and its SSH server",
			m.GetSpec().GetSshEndpoint(), over, err)
	}
	return st, nil
}

func noted(i *holdfastv1.Install) string {
	if i.GetNote() == "" {
		return ""
	}
	return ", and " + i.GetNote()
}

func clock(i *holdfastv1.Install) string {
	if i.GetLastSeenAt() == nil {
		return "never"
	}
	return i.GetLastSeenAt().AsTime().UTC().Format("15:04:05Z")
}

// unknownPlace stands for an address or a detail that was not reported.
const unknownPlace = "an unknown place"
