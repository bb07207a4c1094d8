package runs

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

// imagerOf records the installs of a fleet.
type imagerOf struct {
	*fake.Provider
	asked chan providers.InstallSpec
}

func (p imagerOf) StartInstall(
	ctx context.Context, op providers.Op, m providers.Machine, s providers.InstallSpec,
) error {
	p.asked <- s
	return p.Provider.StartInstall(ctx, op, m, s)
}

// A run shows the stage of its install if that lasts long.
func TestLongStageOfInstallIsShown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, fake.Config{InstallTime: fake.Duration(2 * time.Minute)})
		l.Machine("m-1")
		install := stepOf("s", &holdfastv1.RepaveImage{Image: "debian"})
		install.TimeoutSeconds = 600
		l.Plan("p", install)
		l.lead(quick())
		id := l.Start("m-1", "", "p", nil).GetRunId()
		for _, stage := range []string{"writing the image", "booting the image"} {
			l.Wait(id, "waiting for "+stage, func(r *holdfastv1.Run) bool {
				return r.GetWait().GetKind() == holdfastv1.Wait_INSTALLER && r.GetWait().GetDetail() == stage
			})
		}
		if run := l.Ended(id); run.GetPhase() != holdfastv1.Run_SUCCEEDED {
			t.Errorf("run: got %s (%s), want SUCCEEDED", run.GetPhase(), run.GetError())
		}
	})
}

// A retry boots the machine like its plan, and the installer gets that boot mode.
func TestInstallUsesBootModeOfPlan(t *testing.T) {
	t.Parallel()
	boot := func(name, mode string) *holdfastv1.Step { return stepOf(name, &holdfastv1.SetNetboot{Mode: mode}) }
	for name, tt := range map[string]struct {
		before, after []*holdfastv1.Step
		want          string
	}{
		"no boot step":    {nil, nil, ""},
		"HTTP":            {[]*holdfastv1.Step{boot("b", "HTTP")}, nil, "HTTP"},
		"last boot step":  {[]*holdfastv1.Step{boot("b", "HTTP"), boot("c", "PXE")}, nil, "PXE"},
		"later boot step": {nil, []*holdfastv1.Step{boot("b", "HTTP")}, ""},
		"boot from disk":  {[]*holdfastv1.Step{boot("b", "HTTP"), boot("c", "DISK")}, nil, "HTTP"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, fake.Config{})
			p := imagerOf{fake.New(l.Fleet), make(chan providers.InstallSpec, 10)}
			l.Set = providers.SetOf(map[string]providers.Provider{"fake": p})
			l.Machine("m-1")
			l.Plan("p", append(append(tt.before, stepOf("s", &holdfastv1.RepaveImage{Image: "debian"})), tt.after...)...)
			l.lead(quick())
			l.Ended(l.Start("m-1", "", "p", nil).GetRunId())
			if got := (<-p.asked).Boot; got != tt.want {
				t.Errorf("boot mode: got %q, want %q", got, tt.want)
			}
		})
	}
}
