package executor

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-metal/holdfast/providers"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// repave installs an image. The install is known by the attempt's token, so a new leader finds it.
func (a *attempt) repave(imager providers.Imager, s *holdfastv1.RepaveImage) action {
	spec := providers.InstallSpec{CloudInit: s.GetCloudInit(), Disk: s.GetDisk(), Wipe: s.GetWipe(),
		Image: a.param(s.GetImage(), "image", a.machine.GetLabels()["image"], "default"), Boot: a.networkBoot()}
	return action{do: func(ctx context.Context) error { return a.install(ctx, imager, spec) }}
}

// networkBoot is how the plan boots the machine from the network for this step, as the last step
// before it that says so; empty: none does.
func (a *attempt) networkBoot() (mode string) {
	for _, s := range a.plan.GetSteps() {
		if s.GetName() == a.step.GetName() {
			break
		}
		if m := s.GetNetboot().GetMode(); m == "PXE" || m == "HTTP" {
			mode = m
		}
	}
	return mode
}

// longStage is how long a stage of an install lasts before it is recorded as what is waited for:
// most are over sooner, and each note is an entry.
const longStage = 10 * time.Second

// install starts the install of this attempt unless it was started, and waits for it.
func (a *attempt) install(ctx context.Context, imager providers.Imager, spec providers.InstallSpec) error {
	token := a.op.Token()
	begun := a.adopted != nil
	defer func() { //nolint:contextcheck // the attempt's context may have ended, the term's goes on
		if ender, ok := imager.(providers.InstallEnder); ok && begun {
			a.endInstall(ender)
		}
	}()
	var st providers.InstallStatus
	look := func(ctx context.Context) (err error) {
		st, err = imager.InstallStatus(ctx, a.machine, token)
		return err
	}
	if err := a.poll(ctx, "the installer to answer", func(ctx context.Context) (bool, error) {
		err := look(ctx)
		return err == nil, err
	}); err != nil {
		return err
	}
	if st.State == providers.WorkNone {
		what := "install " + spec.Image
		if spec.Image == "" {
			what = "wipe the disks"
		}
		begun = true
		err := a.effect(ctx, what, func(ctx context.Context) error { return imager.StartInstall(ctx, a.op, a.machine, spec) })
		if err != nil {
			return err
		}
	}
	stage, since := "", time.Now()
	// A press that was taken, or not answered, may show late: it is not pressed again before. So
	// may one of an earlier leader, whichever it was.
	var pressed struct {
		due string
		at  time.Time
	}
	if a.adopted != nil {
		pressed.at = a.began
	}
	return a.poll(ctx, "the install to finish", func(ctx context.Context) (bool, error) {
		if err := look(ctx); err != nil {
			return false, err
		}
		if st.Stage != stage {
			stage, since = st.Stage, time.Now()
			a.say("install: %s (%d %%)", clean(stage), st.Progress)
		}
		if stage != "" && time.Since(since) > longStage {
			a.waitingFor = "the install to finish (" + clean(stage) + ")" // the next note says so
		}
		if st.Due != "" && st.State == providers.WorkRunning {
			if st.Press && (pressed.due == st.Due || pressed.due == "") && time.Since(pressed.at) <= a.settleTime() {
				return false, nil
			}
			err := a.effect(ctx, st.Due, func(ctx context.Context) error { return imager.StartInstall(ctx, a.op, a.machine, spec) })
			if st.Press {
				a.hand.sent = time.Now() // or it was not sent: a cancel waits all the same
			}
			if st.Press && (err == nil || a.unanswered(ctx, err)) {
				pressed.due, pressed.at, err = st.Due, time.Now(), nil
			}
			return false, err
		}
		switch st.State {
		case providers.WorkFailed:
			return false, &failure{fmt.Errorf("install failed: %s", clean(st.Error))}
		case providers.WorkNone:
			return false, &failure{fmt.Errorf("start install: accepted, but there is no install %s", token)}
		case providers.WorkDone:
			if st.Image != spec.Image && spec.Image != "" {
				return false, &failure{fmt.Errorf("install finished, but the disk has %q, not %q", clean(st.Image), spec.Image)}
			}
			a.prove(map[string]string{"image": st.Image})
			a.message = "installed " + st.Image
			return true, nil
		}
		return false, nil
	})
}

// proofMedium says what has become of what a machine was booted from to be installed.
const proofMedium = "boot_medium"

// endInstallTime bounds how long it is tried to end an install.
const endInstallTime = 20 * time.Second

// endInstall takes away what a machine was booted from to be installed, however the attempt has
// ended. When it is only the term that is over it does nothing: the next leader goes on with the
// install.
func (a *attempt) endInstall(ender providers.InstallEnder) {
	ctx, stop := context.WithTimeout(a.whole, endInstallTime)
	defer stop()
	for {
		err := a.effect(ctx, "see that no boot medium is left in the machine", func(ctx context.Context) error { return ender.EndInstall(ctx, a.op, a.machine) })
		switch {
		case err == nil:
			a.prove(map[string]string{proofMedium: "ejected"})
			return
		case a.whole.Err() != nil || a.broken != nil:
			return
		case !passing(err) || sleep(ctx, a.cfg.PollMax) != nil:
			a.prove(map[string]string{proofMedium: "not known to be ejected: nobody gets it any more"})
			a.say("the boot medium could not be ejected; nothing can be booted from it any more, as its install is over: %v", err)
			return
		}
	}
}
