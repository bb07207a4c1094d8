package runs

import (
	"context"
	"testing"

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
