package netboot

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers"
)

// Drive controls a machine that is installed from virtual media.
type Drive interface {
	Buttons
	providers.MediaController
}

// MediumConfig is the configuration of installs from virtual media. Zero times have the defaults of
// Config.
type MediumConfig struct {
	Config
	// Servers are the base URLs of peers that BMCs load the medium from. Attempts use them in
	// turn.
	Servers []string
	// Installers are the corresponding base URLs for the installer, on the network of the
	// machine; default Servers.
	Installers []string
}

// MediumImager installs machines from virtual media. It inserts a boot medium of the session, boots
// the machine from it once, and ejects it once the installer runs. It implements providers.Imager
// and providers.InstallEnder.
//
// The next action follows from the drive, the boot device, the power, and a record that the machine
// was off. So a new leader continues where the last one stopped. The exception is the secret of a
// medium that was made but not inserted: the new leader makes another medium.
type MediumImager struct {
	*Imager
	cfg   MediumConfig
	drive Drive

	mu   sync.Mutex
	made map[string][32]byte // secret of the medium to insert, by attempt
	out  map[string]bool     // medium was ejected, by attempt
}

// NewMedium returns a MediumImager.
func NewMedium(cfg MediumConfig, s Sessions, d Drive, host providers.Inspector) (*MediumImager, error) {
	if len(cfg.Installers) == 0 {
		cfg.Installers = cfg.Servers
	}
	if len(cfg.Servers) == 0 || len(cfg.Installers) != len(cfg.Servers) {
		return nil, fmt.Errorf("create imager for virtual media: %d servers for BMCs and %d for "+
			"installers: want the same number of both, and at least one", len(cfg.Servers), len(cfg.Installers))
	}
	return &MediumImager{
		Imager: New(cfg.Config, s, d, host),
		cfg:    cfg,
		drive:  d,
		made:   map[string][32]byte{},
		out:    map[string]bool{},
	}, nil
}

// The due actions of an install from virtual media.
const (
	dueEmpty  = "eject the other image from the virtual drive"
	dueInsert = "insert the boot medium of this install"
	dueCDOff  = "boot from the virtual CD once, power off"
	dueCD     = "boot from the virtual CD once"
	dueOut    = "eject the boot medium: the installer runs from memory"
)

// BootsInstaller returns true: a machine does not answer while it is being installed. A reboot
// before the install is useless, because the install itself boots the machine.
func (p *MediumImager) BootsInstaller() bool { return true }

// StartInstall opens the session, or performs the due action.
func (p *MediumImager) StartInstall(
	ctx context.Context, op providers.Op, m providers.Machine, spec providers.InstallSpec,
) error {
	i := p.session(m, op.Token())
	if i == nil {
		return p.Imager.StartInstall(ctx, op, m, spec)
	}
	due, err := p.dueNow(providers.Unhurried(ctx), m, i)
	if err != nil {
		return err
	}
	switch due {
	case dueEmpty:
		return p.eject(ctx, op, m)
	case dueOut:
		// failpoint: medium-leaving
		err := p.eject(ctx, op, m)
		// failpoint: medium-out
		return err
	case dueInsert:
		return p.insert(ctx, op, m, i)
	case dueCDOff, dueCD:
		if err := bootFrom(ctx, p.drive, op, m, "VIRTUAL_MEDIA"); err != nil || due == dueCD {
			return err
		}
		return press(ctx, p.drive, op, m, providers.ActionHardOff)
	case dueOn:
		return press(ctx, p.drive, op, m, providers.ActionOn)
	}
	return nil
}

func (p *MediumImager) eject(ctx context.Context, op providers.Op, m providers.Machine) error {
	return hide(confirmed(ctx, "eject the medium", func(ctx context.Context) error {
		return p.drive.EjectMedia(ctx, op, m)
	}))
}

// insert records a medium in the session and inserts it. After a late or unanswered call the next
// one uses the same medium, as long as the session has it.
func (p *MediumImager) insert(
	ctx context.Context, op providers.Op, m providers.Machine, i *holdfastv1.Install,
) error {
	n := int(i.GetAttempt()-1) % len(p.cfg.Servers)
	p.mu.Lock()
	secret := p.made[token(i)]
	p.mu.Unlock()
	if _, sum := providers.MediumToken(secret); !bytes.Equal(sum, i.GetMediumSha256()) {
		_, _ = rand.Read(secret[:]) // it never fails
		_, sum = providers.MediumToken(secret)
		if err := p.sessions.Note(ctx, i, Seen{MediumSHA256: sum, MediumServer: p.cfg.Installers[n]}); err != nil {
			return err
		}
		p.mu.Lock()
		p.made[token(i)] = secret
		p.mu.Unlock()
	}
	return hide(confirmed(ctx, "insert the boot medium", func(ctx context.Context) error {
		return p.drive.InsertMedia(ctx, op, m, providers.MediumURL(p.cfg.Servers[n], secret))
	}))
}

// hide removes the secret of a medium from an error of a BMC.
func hide(err error) error {
	if err == nil {
		return nil
	}
	text := providers.HideMedium(err.Error())
	if text == err.Error() {
		return err
	}
	if classed, ok := errors.AsType[*providers.Error](err); ok {
		return providers.Errorf(classed.Class, "use the boot medium", "%s", text)
	}
	return errors.New(text)
}

// inDrive reports whether the drive is empty, whether it has the medium of session i, and whether
// it has any medium of ours.
func (p *MediumImager) inDrive(
	ctx context.Context, m providers.Machine, i *holdfastv1.Install,
) (empty, its, ours bool, err error) {
	u, err := p.drive.Media(ctx, m)
	if err != nil {
		return false, false, false, hide(err)
	}
	secret, ours := providers.MediumSecret(u)
	_, sum := providers.MediumToken(secret)
	return u == "", ours && bytes.Equal(sum, i.GetMediumSha256()), ours, nil
}

// dueNow returns the due action, or "".
func (p *MediumImager) dueNow(
	ctx context.Context, m providers.Machine, i *holdfastv1.Install,
) (string, error) {
	switch i.GetStage() {
	case holdfastv1.Install_WAITING_FOR_PXE, holdfastv1.Install_BOOTED_IPXE:
		if i.GetPowerOnSeen() {
			return "", nil
		}
	case holdfastv1.Install_BOOTED_DISK, holdfastv1.Install_FAILED:
		return "", nil
	default:
		return p.dueAfterBoot(ctx, m, i)
	}
	switch empty, its, _, err := p.inDrive(ctx, m, i); {
	case err != nil:
		return "", err
	case empty:
		return dueInsert, nil
	case !its:
		return dueEmpty, nil
	}
	state, err := p.drive.PowerState(ctx, m)
	if err != nil {
		return "", err
	}
	switch {
	case state == providers.PowerOn && !i.GetPowerOffSeen():
		return dueCDOff, nil
	case state == providers.PowerOn:
		return "", p.sessions.Note(ctx, i, Seen{PowerOn: true})
	case state != providers.PowerOff: // in transition
		return "", nil
	case !i.GetPowerOffSeen():
		return "", p.sessions.Note(ctx, i, Seen{PowerOff: true})
	}
	// Some BMCs lose the override when the power goes off.
	if d, err := p.drive.BootDevice(ctx, m); err != nil || d.Mode != "VIRTUAL_MEDIA" {
		return dueCD, err
	}
	return dueOn, nil
}

// dueAfterBoot returns the ejection of the medium while the installer runs: the installer runs from
// memory, and the machine must not boot the medium again.
func (p *MediumImager) dueAfterBoot(
	ctx context.Context, m providers.Machine, i *holdfastv1.Install,
) (string, error) {
	p.mu.Lock()
	out := p.out[token(i)]
	p.mu.Unlock()
	if out {
		return "", nil
	}
	_, _, ours, err := p.inDrive(ctx, m, i)
	if err != nil {
		return "", err
	}
	if ours {
		return dueOut, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out[token(i)] = true
	return "", nil
}

// InstallStatus returns the state of the install, from the session and the drive.
func (p *MediumImager) InstallStatus(
	ctx context.Context, m providers.Machine, tok string,
) (providers.InstallStatus, error) {
	i := p.session(m, tok)
	if i == nil {
		return providers.InstallStatus{State: providers.WorkNone}, nil
	}
	due, err := p.dueNow(ctx, m, i)
	st := providers.InstallStatus{
		State:    providers.WorkRunning,
		Progress: int(i.GetProgress()),
		Image:    i.GetImage(),
		Due:      due,
		Press:    due == dueCDOff || due == dueOn,
		Stage:    "the machine to start from the virtual medium",
	}
	if s := i.GetStage(); s == holdfastv1.Install_WAITING_FOR_PXE {
		if over := limited(ctx, i, i.GetStageSince(), p.Imager.cfg.Boot).over(p.now()); over != "" {
			st.State, st.Due, st.Press = providers.WorkFailed, "", false
			st.Error = fmt.Sprintf("the installer has not reported in %s from the virtual medium%s: check on "+
				"the machine's console whether it boots from the virtual CD, and whether the installer reaches %s",
				over, lastSaid(err), i.GetMediumServer())
			return st, nil
		}
		return st, err
	}
	// Reports of the installer count even while the BMC does not answer. But the install is not
	// done before the medium is out.
	all, failed := p.Imager.InstallStatus(ctx, m, tok)
	if all.State == providers.WorkDone && (due != "" || err != nil) || all.State == providers.WorkRunning {
		st.Stage, st.Erases = all.Stage, all.Erases || all.State == providers.WorkDone
		return st, errors.Join(failed, err)
	}
	return all, failed
}

func lastSaid(err error) string {
	if err == nil {
		return ""
	}
	return " (" + err.Error() + ")"
}

// EndInstall ejects the medium, of any attempt: after the end of an attempt it must not be booted.
func (p *MediumImager) EndInstall(ctx context.Context, op providers.Op, m providers.Machine) error {
	_, _, ours, err := p.inDrive(providers.Unhurried(ctx), m, nil)
	if err == nil && ours {
		err = p.eject(ctx, op, m)
	}
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.made, op.Token())
	delete(p.out, op.Token())
	return nil
}
