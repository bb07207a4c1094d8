package providertest

import (
	"reflect"

	"github.com/holdfast-metal/holdfast/providers"
)

func inspectTests() map[string]func(*harness) {
	return map[string]func(*harness){
		"SeesTheHost": func(h *harness) {
			i := need[providers.Inspector](h)
			f, err := i.Inspect(h.ctx, h.Machine)
			h.ok("inspect", err)
			if !f.Reachable && !f.BMCReachable {
				h.Fatalf("got %+v, want a host or a BMC that answers", f)
			}
			if f.ReachableReason == "" || f.BMCReason == "" {
				h.Fatalf("got %+v, want reasons", f)
			}
			if c, ok := h.Provider.(providers.PowerController); ok && f.BMCReachable {
				power, err := c.PowerState(h.ctx, h.Machine)
				h.ok("read power", err)
				if f.Power != power {
					h.Fatalf("inspect: got power %q, want %q as PowerState returns", f.Power, power)
				}
			}
		},
		"SeesThePower": func(h *harness) {
			i := need[providers.Inspector](h)
			p := need[providers.PowerController](h)
			f, err := i.Inspect(h.ctx, h.Machine)
			h.ok("inspect", err)
			state, err := p.PowerState(h.ctx, h.Machine)
			h.ok("read the power", err)
			if f.Power != providers.PowerUnknown && f.Power != state {
				h.Fatalf("got power %q, want that of PowerState, %q, or none", f.Power, state)
			}
		},
		"ChangesNothing": func(h *harness) {
			i := need[providers.Inspector](h)
			h.unchanged("inspecting", func() error {
				_, err := i.Inspect(h.ctx, h.Machine)
				return err
			})
		},
	}
}

// unchanged calls read several times and checks that the machine does not change.
func (h *harness) unchanged(name string, read func() error) {
	h.Helper()
	before := h.everything()
	for range 5 {
		h.ok(name, read())
	}
	if after := h.everything(); !reflect.DeepEqual(before, after) {
		h.Fatalf("%s changed %+v to %+v", name, before, after)
	}
}

// observed is the state of a machine that can be read without changing it.
type observed struct {
	Facts   providers.Facts
	Power   providers.PowerState
	Boot    providers.BootDevice
	Effects []Effect
}

func (h *harness) everything() (o observed) {
	h.Helper()
	var err error
	if p, ok := h.Provider.(providers.Inspector); ok {
		// A host of a busy machine may miss one reading.
		h.eventually("a host or a BMC that answers", func() (bool, error) {
			o.Facts, err = p.Inspect(h.ctx, h.Machine)
			return o.Facts.Reachable || o.Facts.BMCReachable, err
		})
	}
	if p, ok := h.Provider.(providers.PowerController); ok {
		o.Power, err = p.PowerState(h.ctx, h.Machine)
		h.ok("read power", err)
	}
	if p, ok := h.Provider.(providers.BootController); ok {
		o.Boot, err = p.BootDevice(h.ctx, h.Machine)
		h.ok("read boot device", err)
	}
	if h.Effects != nil {
		o.Effects, err = h.Effects(h.ctx)
		h.ok("read the effects", err)
	}
	return o
}

func powerTests() map[string]func(*harness) {
	return map[string]func(*harness){
		"HardOffThenOn": func(h *harness) { h.offThenOn(providers.ActionHardOff) },
		"SoftOffThenOn": func(h *harness) {
			if h.NoSoftOff {
				p := need[providers.PowerController](h)
				err := p.SetPower(h.ctx, h.op("off"), h.Machine, providers.ActionSoftOff)
				if c := h.classed("soft off", err); c != providers.Unsupported {
					h.Fatalf("a soft off that the machine lacks is refused as %s, want %s", c, providers.Unsupported)
				}
				h.power(p, providers.PowerOn)
				return
			}
			h.booted() // a soft-off needs a running operating system
			h.offThenOn(providers.ActionSoftOff)
		},
		"PressWhenAlreadyThere": func(h *harness) {
			p := need[providers.PowerController](h)
			on, off := h.op("on"), h.op("off")
			h.press(p, on, providers.ActionOn)
			h.power(p, providers.PowerOn)
			h.press(p, off, providers.ActionHardOff)
			h.power(p, providers.PowerOff)
			again := h.op("again")
			h.press(p, again, providers.ActionHardOff)
			h.power(p, providers.PowerOff)
			h.counted(on, "power_on", 1)
			h.counted(off, "power_off", 1)
			h.counted(again, "power_off", 1)
			h.turnOn(p)
		},
		"UnknownActionIsRefused": func(h *harness) {
			p := need[providers.PowerController](h)
			op := h.op("cycle")
			h.classed("power action cycle", p.SetPower(h.ctx, op, h.Machine, "cycle"))
			h.power(p, providers.PowerOn)
			h.counted(op, "power_off", 0)
		},
	}
}

// offThenOn reboots a machine as the executor does: off, observed off, on, observed on.
func (h *harness) offThenOn(how providers.PowerAction) {
	p := need[providers.PowerController](h)
	i, inspects := h.Provider.(providers.Inspector)
	var before providers.Facts
	if inspects {
		var err error
		before, err = i.Inspect(h.ctx, h.Machine)
		h.ok("inspect", err)
	}
	op := h.op("reboot")
	h.press(p, op, how)
	h.power(p, providers.PowerOff)
	h.counted(op, "power_off", 1)
	if inspects {
		h.eventually("host does not answer", func() (bool, error) {
			f, err := i.Inspect(h.ctx, h.Machine)
			return !f.Reachable, err
		})
	}
	h.press(p, op, providers.ActionOn)
	h.power(p, providers.PowerOn)
	h.counted(op, "power_on", 1)
	h.turnOn(p)
	if inspects && before.BootID != "" {
		after, err := i.Inspect(h.ctx, h.Machine)
		h.ok("inspect", err)
		if after.BootID == before.BootID {
			h.Fatalf("boot id is %q before and after a reboot", after.BootID)
		}
	}
}

func (h *harness) press(p providers.PowerController, op providers.Op, a providers.PowerAction) {
	h.Helper()
	h.ok("press "+string(a), p.SetPower(h.ctx, op, h.Machine, a))
}

func (h *harness) power(p providers.PowerController, want providers.PowerState) {
	h.Helper()
	h.eventually("power "+string(want), func() (bool, error) {
		s, err := p.PowerState(h.ctx, h.Machine)
		return s == want, err
	})
}

// turnOn leaves the machine powered on and, if the provider is an Inspector, booted.
func (h *harness) turnOn(p providers.PowerController) {
	h.Helper()
	s, err := p.PowerState(h.ctx, h.Machine)
	h.ok("read power", err)
	if s != providers.PowerOn {
		h.press(p, h.op("restore"), providers.ActionOn)
		h.power(p, providers.PowerOn)
	}
	if i, ok := h.Provider.(providers.Inspector); ok {
		h.eventually("host answers", func() (bool, error) {
			f, err := i.Inspect(h.ctx, h.Machine)
			return f.Reachable || f.ReachableReason == "", err
		})
	}
}
