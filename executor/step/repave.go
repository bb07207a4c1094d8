package step

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-metal/holdfast/executor/task"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/providers"

	"github.com/holdfast-metal/holdfast/internal/wait"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// installStep installs an image, or wipes the disks.
type installStep struct{ *Attempt }

// repave installs an image. The install is identified by the attempt's token, so a new
// leader finds it.
func (a installStep) repave(imager providers.Imager, s *holdfastv1.RepaveImage) Action {
	spec := providers.InstallSpec{
		CloudInit: s.GetCloudInit(),
		Disk:      s.GetDisk(),
		Wipe:      s.GetWipe(),
		Image:     fsm.ImageOf(s, a.Run, a.Machine),
		Boot:      a.networkBoot(),
	}
	return Action{Do: func(ctx context.Context) error { return a.install(ctx, imager, spec) }}
}

// networkBoot returns the network boot mode that the plan's last netboot step before this
// one sets, or "" if there is none.
func (a installStep) networkBoot() (mode string) {
	for _, s := range a.Plan.GetSteps() {
		if s.GetName() == a.Step.GetName() {
			break
		}
		if m := s.GetNetboot().GetMode(); m == "PXE" || m == "HTTP" {
			mode = m
		}
	}
	return mode
}

// longStage is how long a stage of an install lasts before it is recorded in the run's wait.
// Most stages are shorter, and each note is a log entry.
const longStage = 10 * time.Second

// install starts the install of this attempt unless it was started, and waits for it.
func (a installStep) install(ctx context.Context, imager providers.Imager, spec providers.InstallSpec) error {
	token := a.Op.Token()
	begun := a.Adopted
	defer func() { //nolint:contextcheck // the attempt's context may have ended, the term's has not
		if ender, ok := imager.(providers.InstallEnder); ok && begun {
			a.endInstall(ender)
		}
	}()
	var st providers.InstallStatus
	readStatus := func(ctx context.Context) (err error) {
		st, err = imager.InstallStatus(ctx, a.Machine, token)
		return err
	}
	if err := a.Poll(ctx, answer("installer", ""), func(ctx context.Context) (bool, error) {
		err := readStatus(ctx)
		return err == nil, err
	}); err != nil {
		return err
	}
	start := func(ctx context.Context) error { return imager.StartInstall(ctx, a.Op, a.Machine, spec) }
	if st.State == providers.WorkNone {
		if err := a.sure(); err != nil {
			return err
		}
		what := "install " + spec.Image
		if spec.Image == "" {
			what = "wipe the disks"
		}
		begun = true
		if err := a.Effect(ctx, what, a.surely(start)); err != nil {
			return err
		}
	}
	stage, since := "", time.Now()
	// A press that was accepted or not answered may take effect late, so it is not
	// repeated before the settle time has passed. The same holds for any press of an
	// earlier leader.
	var pressed struct {
		due string
		at  time.Time
	}
	if a.Adopted {
		pressed.at = a.Began
	}
	return a.Poll(ctx, waitOf(holdfastv1.Wait_INSTALLER, ""), func(ctx context.Context) (bool, error) {
		if err := readStatus(ctx); err != nil {
			return false, err
		}
		do := start
		switch {
		case st.State != providers.WorkRunning: // it has ended
		case st.Erases:
			a.noteDoubt()
		default:
			if err := a.sure(); err != nil {
				return false, err
			}
			do = a.surely(start)
		}
		if st.Stage != stage {
			stage, since = st.Stage, time.Now()
			a.Say("install: %s (%d %%)", task.Clean(stage), st.Progress)
		}
		w := waitOf(holdfastv1.Wait_INSTALLER, "")
		if stage != "" && time.Since(since) > longStage {
			w.Detail = task.Truncate(task.MaxText, task.Clean(stage))
		}
		a.awaits(w)
		if st.Due != "" && st.State == providers.WorkRunning {
			if st.Press && (pressed.due == st.Due || pressed.due == "") && time.Since(pressed.at) <= a.SettleTime() {
				return false, nil
			}
			err := a.Effect(ctx, st.Due, do)
			if st.Press {
				a.InFlight.Sent = time.Now() // even if it was not sent, so that a cancel always waits
			}
			if st.Press && (err == nil || a.isUnknown(ctx, err)) {
				pressed.due, pressed.at, err = st.Due, time.Now(), nil
			}
			return false, err
		}
		switch st.State {
		case providers.WorkFailed:
			return false, &Failure{fmt.Errorf("install failed: %s", task.Clean(st.Error))}
		case providers.WorkNone:
			return false, &Failure{fmt.Errorf("start install: accepted, but install %s does not exist", token)}
		case providers.WorkDone:
			if st.Image != spec.Image && spec.Image != "" {
				return false, &Failure{fmt.Errorf("install finished, but the disk has %q, not %q",
					task.Clean(st.Image), spec.Image)}
			}
			a.AddEvidence(map[string]string{"image": st.Image})
			a.Message = "installed " + st.Image
			return true, nil
		}
		return false, nil
	})
}

// evidenceMedium is the evidence of whether the boot medium of an install was ejected.
const evidenceMedium = "boot_medium"

// endInstallTime bounds the time to end an install.
const endInstallTime = 20 * time.Second

// endInstall removes the boot medium of an install, whatever the outcome of the attempt.
// If only the term has ended it does nothing: the next leader continues with the install.
func (a installStep) endInstall(ender providers.InstallEnder) {
	ctx, stop := context.WithTimeout(a.Term, a.toEnd(endInstallTime))
	defer stop()
	for {
		err := a.Effect(ctx, "remove the boot medium from the machine", func(ctx context.Context) error {
			return ender.EndInstall(ctx, a.Op, a.Machine)
		})
		switch {
		case err == nil:
			a.AddEvidence(map[string]string{evidenceMedium: "ejected"})
			return
		case a.Term.Err() != nil || a.Broken != nil:
			return
		case !passing(err) || wait.Sleep(ctx, a.Config.PollMax) != nil:
			a.AddEvidence(map[string]string{evidenceMedium: "not known to be ejected, but no longer served"})
			a.Say("cannot eject the boot medium; it is no longer served, as its install has ended: %v", err)
			return
		}
	}
}
