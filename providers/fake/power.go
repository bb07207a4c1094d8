package fake

import (
	"fmt"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
)

// call is one call of an operation on a machine. The machine's lock is held.
type call struct {
	*machine
	now    time.Time
	op     providers.Op
	strike strike
}

func (c *call) inspect(struct{}) (any, error) {
	f := providers.Facts{BMCReachable: true, BMCReason: "RedfishOK", BootID: c.bootID, Image: c.image}
	f.Reachable, f.ReachableReason = c.reachable()
	if c.now.Before(c.backAt) {
		f.BMCReachable, f.BMCReason = false, "RedfishTimeout"
	}
	if c.strike.auth {
		f.BMCReachable, f.BMCReason = false, "AuthFailed"
	}
	if c.strike.down {
		f.Reachable, f.ReachableReason = false, "PingTimeout"
		f.BMCReachable, f.BMCReason = false, "RedfishTimeout"
	}
	if f.BMCReachable {
		f.Power = c.powerNow()
	}
	if !f.Reachable {
		f.BootID, f.Image = "", "" // the host reports them
	}
	return f, nil
}

// health returns the parts that the faults have broken.
func (c *call) health(struct{}) (any, error) {
	var h providers.Health
	for kind, text := range c.fleet.faults.Load().of(c.id).Broken {
		h.Problems = append(h.Problems, providers.Problem{Kind: kind, Text: text})
	}
	h.Sort()
	return h, nil
}

func (c *call) powerState(struct{}) (any, error) { return c.powerNow(), nil }

func (c *call) powerNow() providers.PowerState {
	if c.power {
		return providers.PowerOn
	}
	return providers.PowerOff
}

func (c *call) powerOn(struct{}) (any, error) {
	c.effect(c.op, opPowerOn, false, "")
	c.press(true)
	return nil, nil
}

// powerOff counts every accepted press as destructive, even if the machine is off, because tests
// check for extra presses.
func (c *call) powerOff(a struct{ Action providers.PowerAction }) (any, error) {
	switch a.Action {
	case providers.ActionHardOff:
		c.effect(c.op, opPowerOff, true, string(a.Action))
		c.press(false)
	case providers.ActionSoftOff:
		c.effect(c.op, opPowerOff, true, string(a.Action))
		if c.up { // otherwise there is no operating system to react
			c.shutDown()
		}
	default:
		return nil, fmt.Errorf("power action %q is not one of on, soft-off, hard-off", a.Action)
	}
	return nil, nil
}

// shutDown powers off after the shutdown time, as an operating system does.
func (c *call) shutDown() {
	after := time.Duration(c.fleet.config.ShutdownTime)
	if after == 0 {
		c.press(false)
		return
	}
	m, life := c.machine, c.life
	c.later(c.now.Add(after), false, func(at time.Time) {
		if m.life == life {
			m.inBand(at, effectPoweroff)
		}
	})
}

// press changes the power after the pending presses.
func (c *call) press(on bool) {
	if c.target == on {
		return
	}
	c.target = on
	at := c.now
	for _, e := range c.pending {
		if e.press && e.at.After(at) {
			at = e.at
		}
	}
	c.later(at.Add(time.Duration(c.fleet.config.PowerTime)), true, func(at time.Time) {
		if on {
			c.turnOn(at)
		} else {
			c.turnOff(at)
		}
	})
}

func (m *machine) turnOn(at time.Time) {
	if m.power { // an install has powered it on
		return
	}
	m.power = true
	m.note(at, "OK", "Power Unit", "Power on")
	m.start(at)
}

func (m *machine) turnOff(at time.Time) {
	if m.power {
		m.note(at, "OK", "Power Unit", "Power off/down")
	}
	m.power = false
	m.down(at, "PoweredOff")
	m.say("\r\n[power off]\r\n")
	m.current.fail(m, "power was lost")
}

func (c *call) bootDevice(struct{}) (any, error) {
	if c.next != nil {
		return *c.next, nil
	}
	return c.boot, nil
}

func (c *call) setBootDevice(d providers.BootDevice) (any, error) {
	switch d.Mode {
	case "PXE", "HTTP", "DISK", "VIRTUAL_MEDIA":
	default:
		return nil, fmt.Errorf("boot device %q is not one of PXE, HTTP, DISK, VIRTUAL_MEDIA", d.Mode)
	}
	c.effect(c.op, opSetBoot, false, d.Mode)
	if d.Persistent {
		c.boot, c.next = d, nil
	} else {
		c.next = &d
	}
	return nil, nil
}

func (c *call) mediaURL(struct{}) (any, error) { return c.media, nil }

func (c *call) insertMedia(a mediaArgs) (any, error) {
	if a.URL == "" {
		return nil, fmt.Errorf("url of the media to insert is empty")
	}
	c.effect(c.op, opInsertMedia, false, a.URL)
	c.media = a.URL
	return nil, nil
}

func (c *call) ejectMedia(struct{}) (any, error) {
	c.effect(c.op, opEjectMedia, false, c.media)
	c.media = ""
	return nil, nil
}

// consoleSize bounds the output that a console keeps, in bytes.
const consoleSize = 64 << 10

// say prints on the serial console.
func (m *machine) say(s string) {
	m.console = append(m.console, s...)
	if over := len(m.console) - consoleSize; over > 0 {
		m.console = append(m.console[:0], m.console[over:]...)
		m.consoleBase += int64(over)
	}
}

func (c *call) readConsole(a consoleArgs) (any, error) {
	skip := min(max(a.Offset-c.consoleBase, 0), int64(len(c.console)))
	data := append([]byte(nil), c.console[skip:]...)
	return consoleAnswer{Data: data, Next: c.consoleBase + int64(len(c.console))}, nil
}

// writeConsole echoes input, as a login prompt does.
func (c *call) writeConsole(a consoleArgs) (any, error) {
	if c.up {
		c.say(string(a.Data))
		if n := len(a.Data); n > 0 && (a.Data[n-1] == '\n' || a.Data[n-1] == '\r') {
			c.say(c.id + " login: ")
		}
	}
	return nil, nil
}
