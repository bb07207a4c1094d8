package netboot

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers"
)

// slow is a BMC that delays every answer. The not-after time is checked right before an effect is
// sent.
type slow struct {
	*bay
	takes time.Duration
}

func (s slow) wait() { time.Sleep(s.takes) } // sleep: fake clock

func (s slow) send(ctx context.Context, what string, effect func() error) error {
	s.wait() // the entity tag, or the transit
	if err := providers.InTime(ctx, what); err != nil {
		return err
	}
	defer s.wait() // it reads back
	return effect()
}

func (s slow) PowerState(ctx context.Context, m providers.Machine) (providers.PowerState, error) {
	s.wait()
	return s.bay.PowerState(ctx, m)
}

func (s slow) BootDevice(ctx context.Context, m providers.Machine) (providers.BootDevice, error) {
	s.wait()
	return s.bay.BootDevice(ctx, m)
}

func (s slow) Media(ctx context.Context, m providers.Machine) (string, error) {
	s.wait()
	return s.bay.Media(ctx, m)
}

func (s slow) SetPower(ctx context.Context, op providers.Op, m providers.Machine, a providers.PowerAction) error {
	return s.send(ctx, "press", func() error { return s.bay.SetPower(ctx, op, m, a) })
}

func (s slow) SetBootDevice(ctx context.Context, op providers.Op, m providers.Machine, d providers.BootDevice) error {
	return s.send(ctx, "set the boot device", func() error { return s.bay.SetBootDevice(ctx, op, m, d) })
}

func (s slow) InsertMedia(ctx context.Context, op providers.Op, m providers.Machine, u string) error {
	return s.send(ctx, "insert", func() error { return s.bay.InsertMedia(ctx, op, m, u) })
}

func (s slow) EjectMedia(ctx context.Context, op providers.Op, m providers.Machine) error {
	return s.send(ctx, "eject", func() error { return s.bay.EjectMedia(ctx, op, m) })
}

// effectTime is the validity of the executor's confirmation of a term.
const effectTime = 500 * time.Millisecond

// An install that reads and makes two effects in sequence is not later on a slow BMC than one
// effect.
func TestSlowBMC(t *testing.T) {
	cd, off, on := "boot VIRTUAL_MEDIA", string(providers.ActionHardOff), string(providers.ActionOn)
	for _, takes := range []time.Duration{20 * time.Millisecond, 300 * time.Millisecond, 450 * time.Millisecond} {
		for name, want := range map[string][]string{"medium": {"open", "insert", cd, off, on, "eject"},
			"network": {"open", "boot PXE", off, on}} {
			t.Run(name+" "+takes.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := slow{&bay{site: site{power: providers.PowerOn}}, takes}
					var p providers.Imager = New(Config{}, s, s, nil)
					attempt := op(2)
					if name == "medium" {
						m, err := NewMedium(MediumConfig{Servers: []string{"http://10.0.0.1:7404"}}, s, s, nil)
						if err != nil {
							t.Fatal(err)
						}
						p, attempt = m, op(1)
					}
					confirm := func(context.Context) (time.Time, error) { return time.Now().Add(effectTime), nil }
					for range 12 {
						notAfter, _ := confirm(t.Context())
						err := p.StartInstall(providers.WithConfirm(providers.WithNotAfter(t.Context(), notAfter), confirm), attempt,
							machine(), providers.InstallSpec{Image: "debian"})
						if err != nil {
							t.Fatalf("after %v: got %v", s.done, err)
						}
					}
					if e, ok := p.(providers.InstallEnder); ok {
						notAfter, _ := confirm(t.Context())
						if err := e.EndInstall(providers.WithConfirm(providers.WithNotAfter(t.Context(), notAfter), confirm), attempt,
							machine()); err != nil {
							t.Fatal(err)
						}
					}
					if diff := cmp.Diff(want, s.done); diff != "" {
						t.Errorf("effects (-want +got):\n%s", diff)
					}
					if s.session.GetStage() != holdfastv1.Install_WAITING_FOR_PXE {
						t.Errorf("stage of the session: got %s", s.session.GetStage())
					}
				})
			})
		}
	}
}
