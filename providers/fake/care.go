package fake

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/holdfast-metal/holdfast/providers"
)

// Light returns the state of the locator light.
func (p *Provider) Light(ctx context.Context, m providers.Machine) (providers.LightState, error) {
	return get[providers.LightState](ctx, p, opLight, m, nil)
}

// Identify switches the locator light.
func (p *Provider) Identify(ctx context.Context, op providers.Op, m providers.Machine, on bool) error {
	return p.call(ctx, opIdentify, op, m, lightArgs{on}, nil)
}

// Events reads the BMC's event log, the only one.
func (p *Provider) Events(ctx context.Context, m providers.Machine, log string) ([]providers.Event, error) {
	if err := providers.OnlySEL(log); err != nil {
		return nil, err
	}
	return get[[]providers.Event](ctx, p, opEvents, m, nil)
}

// ClearEvents clears the event log.
func (p *Provider) ClearEvents(ctx context.Context, op providers.Op, m providers.Machine, log string) error {
	if err := providers.OnlySEL(log); err != nil {
		return err
	}
	return p.call(ctx, opClearEvents, op, m, nil, nil)
}

// ResetBMC restarts the BMC, at most once an hour.
func (p *Provider) ResetBMC(ctx context.Context, op providers.Op, m providers.Machine) error {
	return p.call(ctx, opResetBMC, op, m, nil, nil)
}

// BMCResetAt returns the time of the last reset of the BMC.
func (p *Provider) BMCResetAt(ctx context.Context, m providers.Machine) (time.Time, error) {
	return get[time.Time](ctx, p, opResetAt, m, nil)
}

// Inventory reads the parts of the machine.
func (p *Provider) Inventory(ctx context.Context, m providers.Machine) (*providers.Inventory, error) {
	v, err := get[providers.Inventory](ctx, p, opInventory, m, nil)
	return &v, err
}

// care is the state of a BMC other than power and boot.
type care struct {
	light     bool
	events    []providers.Event
	lastEvent int       // number of the last event
	resetAt   time.Time // last reset of the BMC
	backAt    time.Time // the BMC answers again from then on
}

const (
	maxEvents  = 100       // entries that a BMC keeps
	resetEvery = time.Hour // between two resets of a BMC
)

// note adds an entry to the event log.
func (m *machine) note(at time.Time, severity, sensor, message string) {
	m.lastEvent++
	e := providers.Event{
		ID:       strconv.Itoa(m.lastEvent),
		At:       at.UTC(),
		Severity: severity,
		Sensor:   sensor,
		Message:  message,
	}
	m.events = append(m.events, e)
	if over := len(m.events) - maxEvents; over > 0 {
		m.events = append(m.events[:0], m.events[over:]...)
	}
}

func (c *call) lightState(struct{}) (any, error) {
	if c.light {
		return providers.LightOn, nil
	}
	return providers.LightOff, nil
}

func (c *call) identify(a lightArgs) (any, error) {
	c.effect(c.op, opIdentify, false, strconv.FormatBool(a.On))
	c.light = a.On
	return nil, nil
}

func (c *call) readEvents(struct{}) (any, error) {
	return append([]providers.Event{}, c.events...), nil
}

// clearEvents adds an entry after clearing, as many BMCs do.
func (c *call) clearEvents(struct{}) (any, error) {
	c.effect(c.op, opClearEvents, true, fmt.Sprint(len(c.events), " entries"))
	c.events = nil
	c.note(c.now, "OK", "Event Logging Disabled", "Log area reset/cleared")
	return nil, nil
}

func (c *call) resetBMC(struct{}) (any, error) {
	if ago := c.now.Sub(c.resetAt); !c.resetAt.IsZero() && ago < resetEvery {
		return nil, providers.Errorf(providers.Transient, opResetBMC+" of "+c.id,
			"not done: the BMC was reset %s ago, at most one reset an hour is allowed", ago.Round(time.Second))
	}
	c.effect(c.op, opResetBMC, false, "")
	c.resetAt, c.backAt = c.now, c.now.Add(time.Duration(c.fleet.config.ResetTime))
	c.light = false
	c.note(c.now, "OK", "Management Subsystem Health", "BMC reset")
	return nil, nil
}

func (c *call) resetWhen(struct{}) (any, error) { return c.resetAt, nil }

// inventory generates parts that depend only on the seed and the machine.
func (c *call) inventory(struct{}) (any, error) {
	h := xxhash.Sum64String(fmt.Sprintf("%d\x00%s", c.fleet.config.Seed, c.id))
	v := providers.Inventory{
		Manufacturer: "Holdfast",
		Model:        "Fake 1",
		Serial:       fmt.Sprintf("F%010X", h&0xffffffffff),
		BIOS:         "1.0",
		BMC:          "2.7",
		UUID: fmt.Sprintf("%08x-%04x-4%03x-8%03x-%012x",
			h>>32, h>>16&0xffff, h>>4&0xfff, h&0xfff, h&0xffffffffffff),
	}
	for i := range 2 {
		link := providers.PartUp
		if i > 0 {
			link = providers.PartDown
		}
		v.CPUs = append(v.CPUs, providers.CPU{
			Slot:    fmt.Sprint("CPU ", i+1),
			Model:   "Fake 9654",
			Cores:   32,
			Threads: 64,
			State:   providers.PartOK,
		})
		v.Disks = append(v.Disks, providers.Disk{
			Slot:     fmt.Sprint(i + 1),
			Model:    "Fake NVMe",
			Serial:   fmt.Sprintf("D%08X%d", h&0xffffffff, i+1),
			Bytes:    960 << 30,
			Media:    "SSD",
			Firmware: "1.2",
			State:    providers.PartOK,
		})
		v.NICs = append(v.NICs, providers.NIC{
			Name: fmt.Sprint("nic", i+1),
			MAC: fmt.Sprintf("02:%02x:%02x:%02x:%02x:%02x",
				h>>24&0xff, h>>16&0xff, h>>8&0xff, h&0xff, i),
			Mbps: 25000,
			Link: link,
		})
	}
	for i := range 4 {
		v.Memory = append(v.Memory, providers.DIMM{
			Slot:   fmt.Sprint("DIMM ", i+1),
			Bytes:  32 << 30,
			Type:   "DDR5",
			Serial: fmt.Sprintf("M%08X%d", h>>32, i+1),
			State:  providers.PartOK,
		})
		v.MemoryBytes += 32 << 30
	}
	return v, nil
}
