package providertest

import (
	"context"
	"reflect"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
)

// lateTests check the not-after time: an effect that is not sent before it must never happen.
func lateTests() map[string]func(*harness) {
	return map[string]func(*harness){
		"NothingIsDoneTooLate": func(h *harness) {
			effects := h.effects()
			if len(effects) == 0 {
				h.Skip("provider changes nothing")
			}
			before := h.everything()
			for _, ago := range []time.Duration{0, time.Millisecond, time.Hour} {
				ctx := providers.WithNotAfter(h.ctx, time.Now().Add(-ago))
				for name, do := range effects {
					if c := h.classed(name+" too late", do(ctx)); c != providers.Late {
						h.Fatalf("%s %v too late: class is %q, want late", name, ago, c)
					}
				}
			}
			h.calm()
			if after := h.everything(); !reflect.DeepEqual(before, after) {
				h.Fatalf("late effects changed %+v to %+v", before, after)
			}
		},
		"InTimeIsDone": func(h *harness) {
			p := need[providers.PowerController](h)
			off := h.op("off")
			ctx := providers.WithNotAfter(h.ctx, time.Now().Add(h.Wait))
			h.ok("press in time", p.SetPower(ctx, off, h.Machine, providers.ActionHardOff))
			h.power(p, providers.PowerOff)
			h.counted(off, "power_off", 1)
			h.turnOn(p)
		},
	}
}

// calm waits for a moment, so that a forbidden effect can show.
func (h *harness) calm() {
	for range 5 {
		h.pause()
	}
}

// effects returns one call of each kind that changes something.
func (h *harness) effects() map[string]func(context.Context) error {
	es := map[string]func(context.Context) error{}
	if p, ok := h.Provider.(providers.PowerController); ok {
		actions := []providers.PowerAction{providers.ActionOn, providers.ActionSoftOff, providers.ActionHardOff}
		for _, a := range actions {
			es["press "+string(a)] = func(ctx context.Context) error {
				return p.SetPower(ctx, h.op("late"), h.Machine, a)
			}
		}
	}
	if p, ok := h.Provider.(providers.BootController); ok {
		es["set boot device"] = func(ctx context.Context) error {
			return p.SetBootDevice(ctx, h.op("late"), h.Machine, providers.BootDevice{Mode: "PXE", UEFI: true})
		}
	}
	if p, ok := h.Provider.(providers.MediaController); ok && h.MediaURL != "" {
		es["insert media"] = func(ctx context.Context) error {
			return p.InsertMedia(ctx, h.op("late"), h.Machine, h.MediaURL)
		}
		es["eject media"] = func(ctx context.Context) error { return p.EjectMedia(ctx, h.op("late"), h.Machine) }
	}
	if p, ok := h.Provider.(providers.Imager); ok && h.Image != "" {
		es["start install"] = func(ctx context.Context) error {
			return p.StartInstall(ctx, h.op("late"), h.Machine, providers.InstallSpec{Image: h.Image})
		}
	}
	if p, ok := h.Provider.(providers.RemoteExecutor); ok {
		es["start command"] = func(ctx context.Context) error {
			op := h.op("late")
			return p.StartCommand(ctx, op, h.Machine, op.Token(), providers.Command{Script: "true"})
		}
		es["kill command"] = func(ctx context.Context) error {
			op := h.op("late")
			return p.KillCommand(ctx, op, h.Machine, op.Token())
		}
	}
	if p, ok := h.Provider.(providers.ClusterJoiner); ok && h.ClusterRef != "" {
		es["start join"] = func(ctx context.Context) error {
			return p.StartJoin(ctx, h.op("late"), h.Machine, providers.JoinSpec{ClusterRef: h.ClusterRef})
		}
	}
	if p, ok := h.Provider.(providers.NetConfigurator); ok && h.NetConfig != "" {
		es["apply network"] = func(ctx context.Context) error {
			return p.ApplyNetwork(ctx, h.op("late"), h.Machine, h.NetConfig, h.Rollback)
		}
		es["confirm network"] = func(ctx context.Context) error {
			op := h.op("late")
			return p.ConfirmNetwork(ctx, op, h.Machine, op.Token())
		}
	}
	return es
}
