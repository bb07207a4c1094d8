package bmc

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
)

// text is a property that should be text: services answer null, numbers and booleans in places
// where the schema has none.
type text string

// UnmarshalJSON takes text, a number or a boolean; all else is empty.
func (t *text) UnmarshalJSON(b []byte) error {
	var s string
	switch {
	case json.Unmarshal(b, &s) == nil:
		*t = text(s)
	case len(b) > 0 && (b[0] == '-' || b[0] >= '0' && b[0] <= '9' || string(b) == "true" || string(b) == "false"):
		*t = text(b)
	}
	return nil
}

// number is a property that should be a number; set is false if it is not.
type number struct {
	value float64
	set   bool
}

// UnmarshalJSON takes a number, also one in quotes.
func (n *number) UnmarshalJSON(b []byte) error {
	v, err := strconv.ParseFloat(strings.Trim(string(b), `"`), 64)
	n.value, n.set = v, err == nil
	return nil
}

// state is the Status of a resource (Resource schema).
type state struct{ State, Health, HealthRollup text }

// bad returns what is wrong in a word; empty if nothing is known to be. Values that the schema
// does not have count for nothing: a service was seen that answers Health: Enabled
// (bb-Ricardo/check_redfish#200).
func (s state) bad() string {
	switch {
	case s.State == "Absent":
	case s.Health == "Critical":
		return "failed"
	case s.Health == "Warning":
		return "is degraded"
	}
	return ""
}

// part is what parts of a machine have in common, whatever their kind.
type part struct {
	ODataID       string `json:"@odata.id"`
	ID            text   `json:"Id"`
	MemberID      text   `json:"MemberId"`
	Name          text
	Socket        text
	DeviceLocator text
	Status        state

	FailurePredicted bool   // of a drive
	LineInputStatus  text   // of a power supply
	Reading          number `json:"ReadingCelsius"` // of a temperature, with its thresholds
	UpperCritical    number `json:"UpperThresholdCritical"`
	UpperFatal       number `json:"UpperThresholdFatal"`
}

func (p part) id() string { return first(string(p.ID), string(p.MemberID), path.Base(p.ODataID)) }

// called returns the name of a part: its own where it is a name, else what it is and its number.
func (p part) called(what string) string {
	name := first(string(p.DeviceLocator), string(p.Socket), string(p.Name))
	if strings.ContainsAny(name, "0123456789") {
		return clip(name, 60)
	}
	return what + " " + clip(p.id(), 40)
}

// checkup is one look at the health of a machine: requests go out one after the other, so that
// others get their turn at the BMC.
type checkup struct {
	ctx context.Context
	c   *redfishClient
	h   providers.Health
	err error // that ends the look: the BMC does not answer any more
}

// get reads a resource; what a service does not have, or refuses to show, is noted, and all else
// that goes wrong ends the look.
func (k *checkup) get(what, at string, v any) bool {
	if k.err != nil || at == "" {
		return false
	}
	_, err := k.c.get(k.ctx, at, v)
	switch {
	case err == nil:
		return true
	case silent(err) || k.ctx.Err() != nil || providers.ClassOf(classify("", err, false)) == providers.Auth:
		k.err = err
	default:
		k.h.Unread = append(k.h.Unread, what+": "+clip(err.Error(), 120))
	}
	return false
}

// members reads a collection and its members: those that it shows whole are not asked for again.
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

// health reads what the service says of the machine's parts. A roll-up is trusted where it says
// that something is wrong and parts can be asked, or where there is nothing better; never where it
// says that all is well: drives that are about to fail show in none.
func (h *redfishHost) health(ctx context.Context) (providers.Health, error) {
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
		if troubled || st == (state{}) || st.bad() != "" || st.HealthRollup == "Critical" || st.HealthRollup == "Warning" {
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
		k.chassis(c.ID)
	}
	quirks := h.quirksNow()
	if bad := more.Status.bad(); bad != "" && len(k.h.Problems) == 0 && !quirks.RollupVague && (s.PowerState != "Off" || !quirks.RollupVagueOff) {
		k.found(providers.HealthUnnamed, "the BMC says %s of the system, and not of which part", more.Status.Health)
	}
	k.log(s.LogServices.ID)
	k.h.Sort()
	return k.h, k.err
}

// drives reads the drives of all storage controllers.
func (k *checkup) drives(storage string) {
	var controllers struct{ Members []link }
	if storage == "" {
		k.h.Unread = append(k.h.Unread, "disks: the BMC does not show them")
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

// chassis reads power supplies, fans and temperatures, by the old resources or by those that
// replace them.
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
	name := clip(first(string(p.Name), "sensor "+p.id()), 60)
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

// mostSensors bounds how many sensors are asked for their thresholds.
const mostSensors = 16

// metrics reads the sensors behind the temperatures of a ThermalSubsystem, which has no thresholds
// itself.
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
		p.Reading, p.UpperCritical, p.UpperFatal = s.Reading, s.Thresholds.UpperCritical.Reading, s.Thresholds.UpperFatal.Reading
		k.temperature(p)
	}
}

const (
	logWindow  = 24 * time.Hour // how long a critical entry of the event log counts
	logEntries = 10             // entries at each end of a log that are asked for one by one
	logTold    = 3              // entries that are told of
)

// logEntry is what we need of a LogEntry.
type logEntry struct {
	ODataID                              string `json:"@odata.id"`
	Created, Severity, Message, Resolved text
	EntryCode                            text
}

// log reads the newest entries of the event log. Of those that are shown as links only a few at
// each end are read: which end is the new one is for the service to know.
func (k *checkup) log(services string) {
	var all struct{ Members []link }
	if services == "" || !k.get("the event log", services, &all) {
		return
	}
	sel := slices.IndexFunc(all.Members, func(l link) bool { return strings.EqualFold(path.Base(l.ID), "SEL") })
	if sel < 0 && len(all.Members) != 1 {
		return // which of several logs is the hardware's cannot be told
	}
	var service struct{ Entries link }
	var entries struct{ Members []logEntry }
	if !k.get("the event log", all.Members[max(sel, 0)].ID, &service) || !k.get("the event log", service.Entries.ID, &entries) {
		return
	}
	n := len(entries.Members)
	var critical []logEntry
	for i, e := range entries.Members {
		if e.Created == "" && e.ODataID != "" && (i < logEntries || i >= n-logEntries) && !k.get("the event log", e.ODataID, &e) {
			continue
		}
		at, err := time.Parse(time.RFC3339, string(e.Created))
		if err != nil || e.Severity != "Critical" || e.Resolved == "true" || strings.Contains(string(e.EntryCode), "Deassert") || time.Since(at) > logWindow || time.Until(at) > time.Hour {
			continue
		}
		critical = append(critical, e)
	}
	slices.SortStableFunc(critical, func(a, b logEntry) int { return strings.Compare(string(b.Created), string(a.Created)) })
	for _, e := range critical[:min(len(critical), logTold)] {
		k.found(providers.EventLogged, "the event log says: %s", clip(string(e.Message), 120))
	}
}
