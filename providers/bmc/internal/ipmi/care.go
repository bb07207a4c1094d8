package ipmi

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/bmc-toolbox/bmclib/v2/providers/ipmitool"

	"github.com/holdfast-metal/holdfast/internal/facts/known"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc/internal/access"
	"github.com/holdfast-metal/holdfast/providers/internal/text"
)

// fields parses lines like "Product Serial        : X".
func fields(out string) map[string]string {
	m := map[string]string{}
	for line := range strings.Lines(out) {
		k, v, ok := strings.Cut(line, ":")
		k = strings.TrimSpace(k)
		if _, twice := m[k]; ok && !twice {
			m[k] = strings.TrimSpace(v)
		}
	}
	return m
}

// mcInfo reads the BMC's own data, and sets its quirks.
func (h *Host) mcInfo(ctx context.Context) (map[string]string, error) {
	h.mu.Lock()
	h.asked = true
	h.mu.Unlock()
	out, err := h.run(ctx, false, "mc", "info")
	if err != nil {
		return nil, err
	}
	f := fields(out)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.quirks = access.QuirksOf(f["Manufacturer Name"], f["Product Name"])
	return f, nil
}

// Inventory reads the little that IPMI has: the FRU data of the board.
func (h *Host) Inventory(ctx context.Context) (*providers.Inventory, error) {
	mc, err := h.mcInfo(ctx)
	if err != nil {
		return nil, err
	}
	v := &providers.Inventory{
		BMC:     mc["Firmware Revision"],
		Missing: []string{"processors, memory, disks, network ports: not available over IPMI"},
		Unread:  providers.PartKinds(),
	}
	out, err := h.run(ctx, false, "fru", "print", "0")
	if err != nil && (access.Silent(err) || providers.ClassOf(err) == providers.Transient) {
		return nil, err
	}
	if err != nil {
		v.Missing = append(v.Missing, "serial number and model: "+text.Clip(err.Error(), access.MaxText))
		return v, nil
	}
	f := fields(out)
	first := func(names ...string) string { // that is no placeholder
		for _, name := range names {
			if s := known.Text(f[name]); s != "" {
				return s
			}
		}
		return ""
	}
	v.Manufacturer = first("Product Manufacturer", "Board Mfg")
	v.Model = first("Product Name", "Board Product")
	v.Serial = first("Product Serial", "Chassis Serial", "Board Serial")
	return v, nil
}

// Events reads the system event log with bmclib and its parser.
func (h *Host) Events(ctx context.Context, log string) (all []providers.Event, err error) {
	if err := providers.OnlySEL(log); err != nil {
		return nil, err
	}
	if _, err := h.mcInfo(ctx); err != nil { // logs in, as library requires
		return nil, err
	}
	err = h.library(ctx, func(ctx context.Context, c *ipmitool.Conn) error {
		rows, err := c.GetSystemEventLog(ctx)
		for _, r := range rows {
			all = append(all, parseEvent(r))
		}
		return err
	})
	return all, err
}

// parseEvent converts a row of bmclib: id, time, sensor, message.
func parseEvent(row []string) (e providers.Event) {
	for i, p := range []*string{&e.ID, nil, &e.Sensor, &e.Message} {
		if p != nil && i < len(row) {
			*p = text.Clip(row[i], 1000)
		}
	}
	if len(row) > 1 {
		e.At = parseTime(row[1])
	}
	return e
}

// parseTime parses the time of an event. Most versions of ipmitool print no zone: it is UTC, as
// BMCs keep it. It returns the zero time for an event from before the clock was set.
func parseTime(s string) time.Time {
	layouts := []string{
		"01/02/2006 15:04:05",
		"01/02/2006 15:04:05 MST",
		"01/02/06 15:04:05",
		"01/02/06 15:04:05 MST",
	}
	for _, layout := range layouts {
		if t, err := time.Parse(layout, strings.TrimSpace(s)); err == nil {
			return t.UTC()
		}
	}
	return time.Time{}
}

// Identify switches the locator light on until it is switched off.
func (h *Host) Identify(ctx context.Context, on bool) error {
	how := "0"
	if on {
		how = "force"
	}
	_, err := h.run(ctx, true, "chassis", "identify", how)
	return err
}

// Light reads the Get Chassis Status command (IPMI 2.0 §28.2): bits 6 to 4 of the third byte, if
// the BMC has them.
func (h *Host) Light(ctx context.Context) (providers.LightState, error) {
	out, err := h.run(ctx, false, "raw", "0x00", "0x01")
	if err != nil {
		return providers.LightUnknown, err
	}
	return parseLight(out), nil
}

// parseLight parses the bytes of a chassis status, which ipmitool prints in hex.
func parseLight(out string) providers.LightState {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	f := strings.Fields(lines[len(lines)-1])
	if len(f) < 3 {
		return providers.LightUnknown
	}
	b, err := strconv.ParseUint(f[2], 16, 8)
	switch {
	case err != nil || b&0x40 == 0:
		return providers.LightUnknown
	case b&0x30 == 0:
		return providers.LightOff
	}
	return providers.LightOn
}

// ClearEvents empties the event log.
func (h *Host) ClearEvents(ctx context.Context, log string) error {
	if err := providers.OnlySEL(log); err != nil {
		return err
	}
	_, err := h.run(ctx, true, "sel", "clear")
	return err
}

// ResetBMC sends a cold reset. ipmitool does not wait for the answer, because a BMC may send none
// (IPMI 2.0 section 20.2). So nil means that the request left this host, not that the BMC has
// accepted it.
func (h *Host) ResetBMC(ctx context.Context) error {
	_, err := h.run(ctx, true, "mc", "reset", "cold")
	return err
}
