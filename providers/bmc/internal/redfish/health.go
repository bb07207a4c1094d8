package redfish

import (
	"cmp"
	"context"
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

	faults map[string]string // paths of the parts with a fault, by the text
}

// get reads a resource. If the service does not have it, or refuses to show it, it is listed as
// unread. Any other error ends the checkup.
func (k *checkup) get(what, at string) (*resource, bool) {
	if k.err != nil || at == "" {
		return nil, false
	}
	r, err := k.c.read(k.ctx, at)
	return r, k.ok(what, err)
}

// ok reports whether err is nil. It lists any other as unread, or ends the checkup: the BMC does
// not answer, or no longer accepts the account.
func (k *checkup) ok(what string, err error) bool {
	switch {
	case k.err != nil:
		return false
	case err == nil:
		return true
	case k.ctx.Err() == nil && partial(err):
		k.unread(what, err.Error())
	default:
		k.err = err
	}
	return false
}

// maxUnread bounds the parts that are listed as unread.
const maxUnread = 32

func (k *checkup) unread(what, why string) {
	line := what + ": " + text.Clip(why, 120)
	if len(k.h.Unread) < maxUnread && !slices.Contains(k.h.Unread, line) {
		k.h.Unread = append(k.h.Unread, line)
	}
}

// members reads a collection and its members. Members that are included in full are not read again.
func (k *checkup) members(what, at string, each func(*resource)) {
	if k.err != nil || at == "" {
		return
	}
	all, err := k.c.members(k.ctx, at, maxMembers)
	if !k.ok(what, err) {
		return
	}
	for _, u := range all.unread {
		k.ok(what, u.err)
	}
	if all.more > 0 {
		k.unread(what, fmt.Sprintf("%d more are not read", all.more))
	}
	for _, r := range all.members {
		each(r)
		k.odd(what, r)
	}
}

// odd lists the state of a part that could not be read.
func (k *checkup) odd(what string, r *resource) {
	if odd := r.Odd(); len(odd) > 0 {
		k.unread(what, strings.Join(odd, ", ")+" of "+r.id()+" cannot be read")
	}
}

func (k *checkup) found(kind providers.Kind, format string, args ...any) {
	k.h.Problems = append(k.h.Problems, providers.Problem{Kind: kind, Text: fmt.Sprintf(format, args...)})
}

// fault adds a problem of a part. Parts of different controllers or chassis can have the same name:
// then the path tells them apart, so that two failed parts are two problems.
func (k *checkup) fault(kind providers.Kind, r *resource, format string, args ...any) {
	said := fmt.Sprintf(format, args...)
	if k.faults == nil {
		k.faults = map[string]string{}
	}
	if at, was := k.faults[said]; was && at != r.path {
		steps := strings.Split(strings.Trim(r.path, "/"), "/")
		said += " (" + text.Clip(strings.Join(steps[max(0, len(steps)-4):], "/"), 80) + ")"
	}
	k.faults[said] = r.path
	k.found(kind, "%s", said)
}

// Health reads the health of the machine's parts. A roll-up that shows a fault makes it read the
// parts; if that names none, the roll-up itself counts. A roll-up of OK never counts: it does not
// reflect drives that are about to fail.
func (h *Host) Health(ctx context.Context) (providers.Health, error) {
	ctx = oneByOne(ctx)
	s, err := h.read(ctx)
	if err != nil {
		return providers.Health{}, err
	}
	k := &checkup{ctx: ctx, c: h.c}
	all := stateOf(s.Object)
	processors, memory := stateOf(s.In("ProcessorSummary")), stateOf(s.In("MemorySummary"))
	troubled := all.bad() != ""
	part := func(kind providers.Kind, what string) func(*resource) {
		return func(r *resource) {
			if bad := stateOf(r.Object).bad(); bad != "" {
				k.fault(kind, r, "%s %s", r.called(what), bad)
			}
		}
	}
	if troubled || !processors.shown() || processors.suspect() {
		k.members("processor", s.Processors.ID, part(providers.CPUFailed, "processor"))
	}
	if troubled || !memory.shown() || memory.suspect() {
		k.members("memory", s.Memory.ID, part(providers.MemoryFailed, "memory"))
	}
	k.drives(s.Storage.ID)
	k.boards(h, s)
	for _, c := range s.Links.Chassis {
		k.chassis(c)
	}
	quirks := h.quirksNow()
	vague := quirks.RollupVague || s.PowerState == "Off" && quirks.RollupVagueOff
	if troubled && len(k.h.Problems) == 0 && !vague {
		for _, message := range all.Conditions {
			k.found(providers.HealthUnnamed, "the BMC reports: %s", message)
		}
		if len(all.Conditions) == 0 {
			k.found(providers.HealthUnnamed, "the BMC reports %s for the system, without naming a part",
				s.In("Status").Text("Health"))
		}
	}
	k.odd("the system", s.resource)
	k.log(h)
	k.h.Sort()
	return k.h, k.err
}

// boards reads the accelerators of the machine's baseboards, which no roll-up of the system
// includes.
func (k *checkup) boards(h *Host, s *computerSystem) {
	if k.err != nil {
		return
	}
	find := &survey{ctx: k.ctx, h: h, v: &providers.Inventory{}}
	boards, _ := find.baseboards(s)
	for _, why := range find.v.Missing {
		k.unread("baseboards", why)
	}
	k.ok("baseboards", find.err)
	for _, b := range boards {
		k.members("GPU", b.Link("Processors"), func(r *resource) {
			if bad := stateOf(r.Object).bad(); bad != "" {
				k.fault(providers.GPUFailed, r, "%s %s", r.called(cmp.Or(r.Text("ProcessorType"), "GPU")), bad)
			}
		})
	}
}

// drives reads the drives of all storage controllers.
func (k *checkup) drives(storage string) {
	if storage == "" {
		k.unread("disks", "not shown by the BMC")
	}
	var drives []string
	k.members("disks", storage, func(c *resource) {
		named, before := len(k.h.Problems), len(drives)
		for _, d := range c.Links("Drives") {
			if !slices.ContainsFunc(drives, func(o string) bool { return sameAs(o, d) }) {
				drives = append(drives, d)
			}
		}
		for _, at := range drives[before:] {
			if d, ok := k.get("disk "+path.Base(at), at); ok {
				k.drive(d)
			}
		}
		st := stateOf(c.Object)
		for _, own := range slices.Concat(c.Objects("StorageControllers"), c.Objects("Controllers")) {
			if st.bad() == "" && !own.Linked() {
				st = stateOf(own)
			}
		}
		if bad := st.bad(); bad != "" && len(k.h.Problems) == named {
			k.fault(providers.DiskFailed, c, "storage controller %s %s", c.id(), bad)
		}
	})
}

func (k *checkup) drive(d *resource) {
	st := stateOf(d.Object)
	if st.absent() {
		return
	}
	failing, _ := d.Flag("FailurePredicted")
	switch bad := st.bad(); {
	case bad == "failed":
		k.fault(providers.DiskFailed, d, "disk %s failed", d.id())
	case failing:
		k.fault(providers.DiskFailed, d, "disk %s is predicted to fail", d.id())
	case bad != "":
		k.fault(providers.DiskFailed, d, "disk %s %s", d.id(), bad)
	}
	k.odd("disk "+d.id(), d)
}

// chassis reads power supplies, fans and temperatures, from the old resources or from their
// replacements.
func (k *checkup) chassis(at string) {
	c, ok := k.get("the chassis", at)
	if !ok {
		return
	}
	if p, ok := k.get("power supplies", c.Link("Power")); ok {
		k.inside("power supplies", p, "PowerSupplies", k.supply)
	} else if sub, ok := k.get("power supplies", c.Link("PowerSubsystem")); ok {
		k.members("power supplies", sub.Link("PowerSupplies"), k.supply)
	}
	if t, ok := k.get("temperatures", c.Link("Thermal")); ok {
		k.inside("temperatures", t, "Temperatures", k.temperature)
		k.inside("fans", t, "Fans", k.fan)
	} else if sub, ok := k.get("temperatures", c.Link("ThermalSubsystem")); ok {
		k.members("fans", sub.Link("Fans"), k.fan)
		k.metrics(sub.Link("ThermalMetrics"))
	}
}

// inside reads the parts that a resource has inside, or links to.
func (k *checkup) inside(what string, of *resource, list string, each func(*resource)) {
	for i, o := range of.Objects(list) {
		r := &resource{Object: o.Alone(), path: cmp.Or(o.Self(), fmt.Sprintf("%s#/%s/%d", of.path, list, i))}
		if r.Linked() {
			var ok bool
			if r, ok = k.get(what, r.path); !ok {
				continue
			}
		}
		each(r)
		k.odd(what, r)
	}
	k.odd(what, of)
}

func (k *checkup) supply(p *resource) {
	st := stateOf(p.Object)
	name := "PSU " + p.id()
	switch bad := st.bad(); {
	case st.absent():
	case p.Word("LineInputStatus", "LossOfInput") == "LossOfInput", bad != "" && st.State == "unavailableoffline":
		k.fault(providers.PowerSupply, p, "%s lost input", name)
	case bad != "":
		k.fault(providers.PowerSupply, p, "%s %s", name, bad)
	}
}

func (k *checkup) temperature(p *resource) {
	reading, read := p.Number("ReadingCelsius")
	limit, limited := p.Number("UpperThresholdCritical")
	if !limited {
		limit, limited = p.Number("UpperThresholdFatal")
	}
	k.heat(p, reading, read, limit, limited)
}

func (k *checkup) heat(p *resource, reading float64, read bool, limit float64, limited bool) {
	st := stateOf(p.Object)
	if st.absent() || st.State == "disabled" {
		return
	}
	name := text.Clip(cmp.Or(p.Text("Name"), "sensor "+p.id()), 60)
	switch bad := st.bad(); {
	case read && limited && limit > 0 && reading >= limit:
		k.fault(providers.Thermal, p, "%s %g C over %g C", name, reading, limit)
	case bad != "" && read:
		k.fault(providers.Thermal, p, "%s %s at %g C", name, bad, reading)
	case bad != "":
		k.fault(providers.Thermal, p, "%s %s", name, bad)
	}
}

func (k *checkup) fan(p *resource) {
	if bad := stateOf(p.Object).bad(); bad != "" {
		k.fault(providers.Thermal, p, "%s %s", p.called("fan"), bad)
	}
}

// mostSensors bounds how many sensors are read for their thresholds.
const mostSensors = 16

// metrics reads the sensors behind the temperatures of a ThermalSubsystem, which has no thresholds
// of its own.
func (k *checkup) metrics(at string) {
	m, ok := k.get("temperatures", at)
	if !ok {
		return
	}
	readings := m.Objects("TemperatureReadingsCelsius")
	if over := len(readings) - mostSensors; over > 0 {
		k.unread("temperatures", fmt.Sprintf("%d more are not read", over))
		readings = readings[:mostSensors]
	}
	for _, r := range readings {
		s, ok := k.get("temperatures", r.Link("DataSourceUri"))
		if !ok {
			continue
		}
		reading, read := s.Number("Reading")
		limit, limited := s.In("Thresholds", "UpperCritical").Number("Reading")
		if !limited {
			limit, limited = s.In("Thresholds", "UpperFatal").Number("Reading")
		}
		k.heat(s, reading, read, limit, limited)
	}
}

// logEntries is the number of the newest entries of the event log that are looked at.
const logEntries = 200

// log reads the newest entries of the machine's event log.
func (k *checkup) log(h *Host) {
	const what = "the event log"
	if k.err != nil {
		return
	}
	l, err := h.machineLog(k.ctx)
	if err != nil && k.ctx.Err() == nil && !access.Silent(err) {
		k.unread(what, err.Error())
		return
	}
	if !k.ok(what, err) {
		return
	}
	entries, _, err := k.c.newestEntries(k.ctx, l, logEntries)
	if !k.ok(what, err) {
		return
	}
	for _, u := range entries.unread {
		k.ok(what, u.err)
	}
	type entry struct {
		at      time.Time
		message string
	}
	var critical []entry
	for _, e := range entries.members {
		at := parseEventTime(createdAt(e))
		if at.IsZero() || time.Since(at) > access.LogWindow || time.Until(at) > time.Hour {
			continue
		}
		resolved, _ := e.Flag("Resolved")
		deasserted := strings.Contains(e.Text("EntryCode"), "Deassert")
		if !strings.EqualFold(severityOf(e), "Critical") || resolved || deasserted {
			continue
		}
		critical = append(critical, entry{at, text.Clip(e.Text("Message"), 120)})
	}
	slices.SortStableFunc(critical, func(a, b entry) int { return b.at.Compare(a.at) })
	for _, e := range critical[:min(len(critical), access.LogReported)] {
		k.found(providers.EventLogged, "the event log says: %s", e.message)
	}
}
