package providertest

import (
	"regexp"
	"slices"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
)

func careTests() map[string]func(*harness) {
	mac := regexp.MustCompile(`^([0-9a-f]{2}:){5}[0-9a-f]{2}$`)
	return map[string]func(*harness){
		"LightReadsBack": func(h *harness) {
			p := need[providers.Identifier](h)
			for on, want := range map[bool]providers.LightState{true: providers.LightOn, false: providers.LightOff} {
				op := h.op("identify-" + string(want))
				h.ok("switch the light "+string(want), p.Identify(h.ctx, op, h.Machine, on))
				h.eventually("light "+string(want), func() (bool, error) {
					got, err := p.Light(h.ctx, h.Machine)
					return got == want || got == providers.LightUnknown, err
				})
				h.counted(op, "identify", 1)
			}
		},
		"EventsAreCleared": func(h *harness) {
			p := need[providers.EventLog](h)
			before, err := p.Events(h.ctx, h.Machine, "")
			h.ok("read the event log", err)
			for i, e := range before[min(1, len(before)):] {
				if e.At.Before(before[i].At) && !e.At.IsZero() {
					h.Fatalf("event %s of %v is listed after %s of %v: the oldest must come first",
						e.ID, e.At, before[i].ID, before[i].At)
				}
			}
			if !h.ClearLog {
				h.Skip("setup does not allow clearing the event log")
			}
			op := h.op("clear-log")
			h.ok("clear the event log", p.ClearEvents(h.ctx, op, h.Machine, ""))
			h.eventually("an empty event log", func() (bool, error) {
				after, err := p.Events(h.ctx, h.Machine, "")
				for _, e := range providers.Entries(after) {
					if slices.Contains(before, e) {
						return false, err
					}
				}
				return true, err
			})
			h.counted(op, "clear_log", 1)
		},
		"InventoryIsSound": func(h *harness) {
			p := need[providers.InventoryReader](h)
			first, err := p.Inventory(h.ctx, h.Machine)
			h.ok("read the inventory", err)
			second, err := p.Inventory(h.ctx, h.Machine)
			h.ok("read the inventory again", err)
			same := first.Serial == second.Serial && len(first.Disks) == len(second.Disks) &&
				len(first.NICs) == len(second.NICs)
			if !same {
				h.Fatalf("two readings differ: %+v and %+v", first, second)
			}
			for _, n := range first.NICs {
				if n.MAC != "" && !mac.MatchString(n.MAC) {
					h.Fatalf("MAC address of %s is %q: want lower case with colons", n.Name, n.MAC)
				}
			}
			if len(first.CPUs)+len(first.Disks)+len(first.NICs)+len(first.Missing) == 0 {
				h.Fatalf("inventory has neither parts nor an entry in Missing: %+v", first)
			}
		},
		"ResetComesBack": func(h *harness) {
			p := need[providers.BMCResetter](h)
			state := need[providers.PowerController](h)
			if !h.ResetBMC {
				h.Skip("setup does not allow resetting the BMC")
			}
			power, err := state.PowerState(h.ctx, h.Machine)
			h.ok("read the power", err)
			op, start := h.op("bmc-reset"), time.Now()
			h.ok("reset the BMC", p.ResetBMC(h.ctx, op, h.Machine))
			at, err := p.BMCResetAt(h.ctx, h.Machine)
			h.ok("last reset of the BMC", err)
			if at.Before(start.Add(-time.Minute)) || at.After(time.Now().Add(time.Minute)) {
				h.Fatalf("the BMC reports a reset at %v, want %v", at, start)
			}
			h.eventually("the BMC to answer again", func() (bool, error) {
				got, err := state.PowerState(h.ctx, h.Machine)
				return got == power, err // the host was left alone
			})
			c := h.classed("reset the BMC again", p.ResetBMC(h.ctx, h.op("bmc-reset"), h.Machine))
			if c != providers.Transient {
				h.Fatalf("a second reset within the hour is refused as %s, want %s", c, providers.Transient)
			}
			h.counted(op, "bmc_reset", 1)
		},
	}
}
