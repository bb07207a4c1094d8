package redfish

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc/internal/access"
	"github.com/holdfast-metal/holdfast/providers/internal/text"
)

// checkup reads the health of a machine once. Its requests run one after the other, so that other
// calls get their turn at the BMC.
type checkup struct {
	ctx context.Context
	c   *Client
	h   providers.Health
	err error // ends the checkup: the BMC no longer answers
}

// get reads a resource. If the service does not have it, or refuses to show it, it is listed as
// unread. Any other error ends the checkup.
func (k *checkup) get(what, at string, v any) bool {
	if k.err != nil || at == "" {
		return false
	}
	_, err := k.c.get(k.ctx, at, v)
	switch {
	case err == nil:
		return true
	case access.Silent(err) || k.ctx.Err() != nil || providers.ClassOf(access.Classify("", err, false)) == providers.Auth:
		k.err = err
	default:
		k.h.Unread = append(k.h.Unread, what+": "+text.Clip(err.Error(), 120))
	}
	return false
}

// members reads a collection and its members. Members that are included in full are not read again.
func (k *checkup) members(what, at string, each func(part)) {
	var all struct{ Members []json.RawMessage }
	if !k.get(what, at, &all) {
		return
	}
	for _, raw := range all.Members {
		var p part
		if json.Unmarshal(raw, &p) != nil {
			continue
		}
		if p.Status == (state{}) && p.ODataID != "" && !k.get(what, p.ODataID, &p) {
			continue
		}
		each(p)
	}
}

func (k *checkup) found(kind providers.Kind, format string, args ...any) {
	k.h.Problems = append(k.h.Problems, providers.Problem{Kind: kind, Text: fmt.Sprintf(format, args...)})
}

// Health reads the health of the machine's parts. A roll-up that shows a fault makes it read the
// parts; if that names none, the roll-up itself counts. A roll-up of OK never counts: it does not
// reflect drives that are about to fail.
func (h *Host) Health(ctx context.Context) (providers.Health, error) {
	s, err := h.read(ctx)
	if err != nil {
		return providers.Health{}, err
	}
	k := &checkup{ctx: ctx, c: h.c}
	var more struct {
		Status           state
		ProcessorSummary struct{ Status state }
		MemorySummary    struct{ Status state }
	}
	k.get("the system", s.ODataID, &more)
	troubled := more.Status.bad() != ""
	summary := func(kind providers.Kind, what, at string, st state) {
		suspect := st.bad() != "" || st.HealthRollup == "Critical" || st.HealthRollup == "Warning"
		if troubled || st == (state{}) || suspect {
			k.members(what, at, func(p part) {
				if bad := p.Status.bad(); bad != "" {
					k.found(kind, "%s %s", p.called(what), bad)
				}
			})
		}
	}
	summary(providers.CPUFailed, "processor", s.Processors.ID, more.ProcessorSummary.Status)
	summary(providers.MemoryFailed, "memory", s.Memory.ID, more.MemorySummary.Status)
	k.drives(s.Storage.ID)
	for _, c := range s.Links.Chassis {
		k.chassis(c)
	}
	quirks := h.quirksNow()
	vague := quirks.RollupVague || s.PowerState == "Off" && quirks.RollupVagueOff
	if more.Status.bad() != "" && len(k.h.Problems) == 0 && !vague {
		k.found(providers.HealthUnnamed, "the BMC reports %s for the system, without naming a part",
			more.Status.Health)
	}
	k.log(s.LogServices.ID)
	k.h.Sort()
	return k.h, k.err
}

// drives reads the drives of all storage controllers.
func (k *checkup) drives(storage string) {
	var controllers struct{ Members []link }
	if storage == "" {
		k.h.Unread = append(k.h.Unread, "disks: not shown by the BMC")
	}
	if !k.get("disks", storage, &controllers) {
		return
	}
	for _, c := range controllers.Members {
		var s struct {
			Status state
			Drives []link
		}
		if !k.get("storage controller "+path.Base(c.ID), c.ID, &s) {
			continue
		}
		named := len(k.h.Problems)
		for _, d := range s.Drives {
			var p part
			if !k.get("disk "+path.Base(d.ID), d.ID, &p) || p.Status.State == "Absent" {
				continue
			}
			if bad := p.Status.bad(); bad == "failed" {
				k.found(providers.DiskFailed, "disk %s failed", p.id())
			} else if p.FailurePredicted {
				k.found(providers.DiskFailed, "disk %s is predicted to fail", p.id())
			} else if bad != "" {
				k.found(providers.DiskFailed, "disk %s %s", p.id(), bad)
			}
		}
		if bad := s.Status.bad(); bad != "" && len(k.h.Problems) == named {
			k.found(providers.DiskFailed, "storage controller %s %s", path.Base(c.ID), bad)
		}
	}
}

// chassis reads power supplies, fans and temperatures, from the old resources or from their
// replacements.
func (k *checkup) chassis(at string) {
	var c struct{ Power, Thermal, PowerSubsystem, ThermalSubsystem link }
	if !k.get("the chassis", at, &c) {
		return
	}
	var p struct{ PowerSupplies []part }
	if c.Power.ID != "" && k.get("power supplies", c.Power.ID, &p) {
		for _, s := range p.PowerSupplies {
			k.supply(s)
		}
	} else if c.PowerSubsystem.ID != "" {
		var sub struct{ PowerSupplies link }
		if k.get("power supplies", c.PowerSubsystem.ID, &sub) {
			k.members("power supplies", sub.PowerSupplies.ID, k.supply)
		}
	}
	var t struct{ Temperatures, Fans []part }
	if c.Thermal.ID != "" && k.get("temperatures", c.Thermal.ID, &t) {
		for _, s := range t.Temperatures {
			k.temperature(s)
		}
		for _, f := range t.Fans {
			k.fan(f)
		}
	} else if c.ThermalSubsystem.ID != "" {
		var sub struct {
			Status         state
			Fans           link
			ThermalMetrics link
		}
		if k.get("temperatures", c.ThermalSubsystem.ID, &sub) {
			k.members("fans", sub.Fans.ID, k.fan)
			k.metrics(sub.ThermalMetrics.ID)
		}
	}
}

func (k *checkup) supply(p part) {
	bad := p.Status.bad()
	name := "PSU " + p.id()
	switch {
	case p.Status.State == "Absent":
	case p.LineInputStatus == "LossOfInput", bad != "" && p.Status.State == "UnavailableOffline":
		k.found(providers.PowerSupply, "%s lost input", name)
	case bad != "":
		k.found(providers.PowerSupply, "%s %s", name, bad)
	}
}

func (k *checkup) temperature(p part) {
	if p.Status.State == "Absent" || p.Status.State == "Disabled" {
		return
	}
	limit := p.UpperCritical
	if !limit.set {
		limit = p.UpperFatal
	}
	name := text.Clip(cmp.Or(string(p.Name), "sensor "+p.id()), 60)
	switch bad := p.Status.bad(); {
	case p.Reading.set && limit.set && limit.value > 0 && p.Reading.value >= limit.value:
		k.found(providers.Thermal, "%s %g C over %g C", name, p.Reading.value, limit.value)
	case bad != "" && p.Reading.set:
		k.found(providers.Thermal, "%s %s at %g C", name, bad, p.Reading.value)
	case bad != "":
		k.found(providers.Thermal, "%s %s", name, bad)
	}
}

func (k *checkup) fan(p part) {
	if bad := p.Status.bad(); bad != "" {
		k.found(providers.Thermal, "%s %s", p.called("fan"), bad)
	}
}

// mostSensors bounds how many sensors are read for their thresholds.
const mostSensors = 16

// metrics reads the sensors behind the temperatures of a ThermalSubsystem, which has no thresholds
// of its own.
func (k *checkup) metrics(at string) {
	var m struct {
		Readings []struct {
			Source string `json:"DataSourceUri"`
		} `json:"TemperatureReadingsCelsius"`
	}
	if at == "" || !k.get("temperatures", at, &m) {
		return
	}
	for _, r := range m.Readings[:min(len(m.Readings), mostSensors)] {
		var s struct {
			part
			Reading    number
			Thresholds struct {
				UpperCritical, UpperFatal struct{ Reading number }
			}
		}
		if r.Source == "" || !k.get("temperatures", r.Source, &s) {
			continue
		}
		p := s.part
		p.Reading, p.UpperCritical = s.Reading, s.Thresholds.UpperCritical.Reading
		p.UpperFatal = s.Thresholds.UpperFatal.Reading
		k.temperature(p)
	}
}

// logEntries is the number of entries at each end of a log that are read one by one.
const logEntries = 10

// logEntry has the fields we need of a LogEntry.
type logEntry struct {
	ODataID                              string `json:"@odata.id"`
	Created, Severity, Message, Resolved looseText
	EntryCode                            looseText
}

// log reads the newest entries of the event log. If entries are links, it reads only a few at each
// end: either end may be the new one.
func (k *checkup) log(services string) {
	var all struct{ Members []link }
	if services == "" || !k.get("the event log", services, &all) {
		return
	}
	sel := slices.IndexFunc(all.Members, func(l link) bool { return strings.EqualFold(path.Base(l.ID), "SEL") })
	if sel < 0 && len(all.Members) != 1 {
		return // it is unknown which of several logs is the hardware's
	}
	var service struct{ Entries link }
	var entries struct{ Members []logEntry }
	at := all.Members[max(sel, 0)].ID
	if !k.get("the event log", at, &service) || !k.get("the event log", service.Entries.ID, &entries) {
		return
	}
	n := len(entries.Members)
	var critical []logEntry
	for i, e := range entries.Members {
		linked := e.Created == "" && e.ODataID != "" && (i < logEntries || i >= n-logEntries)
		if linked && !k.get("the event log", e.ODataID, &e) {
			continue
		}
		at, err := time.Parse(time.RFC3339, string(e.Created))
		if err != nil || time.Since(at) > access.LogWindow || time.Until(at) > time.Hour {
			continue
		}
		deasserted := strings.Contains(string(e.EntryCode), "Deassert")
		if e.Severity != "Critical" || e.Resolved == "true" || deasserted {
			continue
		}
		critical = append(critical, e)
	}
	slices.SortStableFunc(critical, func(a, b logEntry) int {
		return strings.Compare(string(b.Created), string(a.Created))
	})
	for _, e := range critical[:min(len(critical), access.LogReported)] {
		k.found(providers.EventLogged, "the event log says: %s", text.Clip(string(e.Message), 120))
	}
}
