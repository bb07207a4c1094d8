package redfish

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc/internal/access"
	"github.com/holdfast-metal/holdfast/providers/internal/text"
)

// eventLog is the log service with the events of the machine's hardware.
type eventLog struct {
	*resource        // LogService
	name      string // its id, e.g. Sel
}

// entries returns the path of the entries.
func (l *eventLog) entries() string { return l.Link("Entries") }

// clear returns the target of the action ClearLog, or "".
func (l *eventLog) clear() string { return l.In("Actions", "#LogService.ClearLog").Link("target") }

// logRank orders log services by their id, name and LogEntryType: 1 is the hardware's log for sure,
// 0 never is. The ids are those that vendors use: HPE has IML beside SL (security), Event and IEL
// (of the BMC itself), Lenovo PlatformLog beside AuditLog, Dell Sel beside Lclog, OpenBMC EventLog
// beside HostLogger and PostCodes, AMI SEL of the manager beside BIOS of type SEL, Supermicro Log1.
func logRank(id, name, kind string) int {
	byID, byName := rankOf(id), rankOf(strings.TrimSuffix(strings.TrimSuffix(plainName(name), "service"), "s"))
	switch {
	case byID == 0 || byName == 0:
		return 0
	case byID == unclearRank && byName != unclearRank:
		byID = max(byName, 2)
	}
	if strings.EqualFold(kind, "SEL") {
		byID = min(byID, 3)
	}
	return byID
}

// unclearRank is the rank of a log with a name that says nothing.
const unclearRank = 6

func plainName(s string) string {
	return strings.ToLower(strings.NewReplacer(" ", "", "_", "", "-", "").Replace(s))
}

// rankOf returns the rank of a name.
func rankOf(name string) int {
	name = plainName(name)
	for _, never := range []string{
		"audit", "security", "dump", "postcode", "journal", "bios", "lifecycle", "hostlog", "access", "maintenance",
	} {
		if strings.Contains(name, never) {
			return 0
		}
	}
	switch name {
	case "sl", "event", "iel", "iloeventlog", "faultlog", "faultlist", "fdr", "crashlog", "debugtokenservice",
		"debugtoken", "lclog", "lc", "activelog", "salog", "servicelog", "xid", "tasklog", "syslog", "networklog",
		"sessionlog", "console", "consolelog", "hostconsole", "operationlog", "runlog", "celog", "diagnosticlog",
		"debuglog":
		return 0
	case "iml", "integratedmanagementlog", "platformlog", "platformeventlog":
		return 1
	case "sel", "sellog", "systemeventlog", "ipmisel":
		return 2
	case "eventlog", "eventlogs", "events":
		return 4
	case "log1", "log", "logs", "hardwarelog", "standardlog", "systemlog", "healthlog", "healtheventlog":
		return 5
	}
	return unclearRank
}

// machineLog returns the log of the machine's hardware. It is the one that health, events and clear
// use. A log of a lower rank counts, and the system's before its manager's. A SEL without entries
// beside an EventLog is unused: some services only fill the latter. If it is unclear which of
// several logs it is, machineLog returns an error of class Unsupported that names them.
func (h *Host) machineLog(ctx context.Context) (*eventLog, error) {
	const what = "find the event log"
	s, err := h.known(ctx, bootFresh)
	if err != nil {
		return nil, err
	}
	all, gaps, err := h.logsAt(ctx, s.LogServices.ID)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 || all[0].rank > 1 { // otherwise the manager's cannot be a better one
		more, others, err := h.managerLogs(ctx)
		if err != nil && len(all) == 0 {
			return nil, err
		}
		if err != nil {
			gaps = append(gaps, err)
		}
		all, gaps = append(all, more...), append(gaps, others...)
		slices.SortStableFunc(all, func(a, b rankedLog) int { return a.rank - b.rank })
	}
	all = slices.CompactFunc(all, func(a, b rankedLog) bool { return sameAs(a.path, b.path) })
	switch {
	case len(all) == 0 && len(gaps) > 0:
		return nil, fmt.Errorf("%s: %w", what, gaps[0])
	case len(all) == 0:
		return nil, providers.Errorf(providers.Unsupported, what,
			"the BMC shows no log of the hardware, neither for the system nor for its manager")
	case all[0].rank == unclearRank && len(all) > 1:
		var names []string
		for _, l := range all {
			names = append(names, l.name)
		}
		return nil, providers.Errorf(providers.Unsupported, what,
			"it is unclear which log is the hardware's: the BMC has %s: name one (--log %s)",
			text.Clip(strings.Join(names, ", "), 200), names[0])
	}
	best := all[0]
	for _, l := range all[1:] {
		if best.rank == 2 && l.rank == 4 && parentOf(l.path) == parentOf(best.path) && h.emptyLog(ctx, best) {
			best = l
			break
		}
	}
	return best.eventLog, nil
}

// findLog returns the log with an id, or, if that is empty, the log of the machine's hardware. It
// finds no log that belongs to the BMC itself, such as a security or audit log.
func (h *Host) findLog(ctx context.Context, id string) (*eventLog, error) {
	if id == "" {
		return h.machineLog(ctx)
	}
	what := "find log " + text.Clip(id, 64)
	s, err := h.known(ctx, bootFresh)
	if err != nil {
		return nil, err
	}
	var names []string
	var first error // of the places at which the log may be
	find := func(all []rankedLog, gaps []error, err error) *eventLog {
		for _, l := range all {
			if strings.EqualFold(l.name, id) {
				return l.eventLog
			}
			names = append(names, l.name)
		}
		if gaps = append(gaps, err); first == nil {
			first = gaps[0]
		}
		return nil
	}
	if l := find(h.logsAt(ctx, s.LogServices.ID)); l != nil {
		return l, nil
	}
	if l := find(h.managerLogs(ctx)); l != nil {
		return l, nil
	}
	if first != nil && logRank(id, "", "") != 0 {
		return nil, fmt.Errorf("%s: %w", what, first)
	}
	return nil, providers.Errorf(providers.Unsupported, what,
		"the BMC has no such log of the hardware: it has %s (security, audit and service logs are left to the BMC)",
		text.Clip(cmp.Or(strings.Join(names, ", "), "none"), 200))
}

type rankedLog struct {
	*eventLog
	rank int
}

// emptyLog reports whether a log is known to have no entries.
func (h *Host) emptyLog(ctx context.Context, l rankedLog) bool {
	page, err := h.c.read(ctx, l.entries())
	return err == nil && page.Has("Members") && len(page.Objects("Members")) == 0 && page.Next() == ""
}

// managerLogs reads the log services of the system's manager.
func (h *Host) managerLogs(ctx context.Context) ([]rankedLog, []error, error) {
	at, err := h.manager(ctx)
	if err != nil {
		return nil, nil, err
	}
	m, err := h.c.readShown(ctx, at)
	if err != nil {
		return nil, nil, err
	}
	return h.logsAt(ctx, m.Link("LogServices"))
}

// logsAt reads the log services of a collection that may be the machine's, the best first. gaps
// has the errors of those that cannot be read.
func (h *Host) logsAt(ctx context.Context, collection string) (all []rankedLog, gaps []error, err error) {
	if collection == "" {
		return nil, nil, nil
	}
	links, err := h.c.collection(ctx, collection, maxMembers)
	if partial(err) && !busy(err) {
		return nil, []error{err}, nil
	}
	if err != nil {
		return nil, nil, err
	}
	links.members = slices.DeleteFunc(links.members, func(r *resource) bool { return logRank(r.id(), "", "") == 0 })
	if err := h.c.fill(ctx, links); err != nil {
		return nil, nil, err
	}
	for _, u := range links.unread {
		gaps = append(gaps, u)
	}
	for _, r := range links.members {
		l := &eventLog{r, r.id()}
		rank := logRank(l.name, r.Text("Name"), r.Text("LogEntryType"))
		if off, set := r.Flag("ServiceEnabled"); rank > 0 && l.entries() != "" && (off || !set) {
			all = append(all, rankedLog{l, rank})
		}
	}
	slices.SortStableFunc(all, func(a, b rankedLog) int { return a.rank - b.rank })
	return all, gaps, nil
}

// maxMembers bounds the members of one collection, such as all DIMMs of a machine.
const maxMembers = 512

// sameAs reports whether two paths are those of one resource.
func sameAs(a, b string) bool { return strings.TrimRight(a, "/") == strings.TrimRight(b, "/") }

// parentOf returns the path of the collection that a path is in.
func parentOf(path string) string {
	path = strings.TrimRight(path, "/")
	return path[:max(0, strings.LastIndexByte(path, '/'))]
}

// newestEntries reads the newest entries of a log, up to most of them and in the log's order, with
// the number of older ones that are not read. It follows the pages, since either end may be the new
// one. Entries that the collection includes in full are not read again, and those that vanish
// meanwhile are left out. If newer entries than those returned are not read, unread says so.
func (c *Client) newestEntries(ctx context.Context, l *eventLog, most int) (all *collection, older int, err error) {
	all, err = c.collection(ctx, l.entries(), 64*maxMembers)
	if err != nil {
		return nil, 0, err
	}
	forward := len(all.members) > 0 && oldestFirst(all.members)
	if all.more > 0 && forward {
		all.unread = append(all.unread, unread{l.path, access.Disagree(
			"the newest entries of %s are not read: it shows only the oldest %d", l.name, len(all.members))})
	} else {
		older = all.more
	}
	all.more = 0
	if over := len(all.members) - most; over > 0 {
		older += over
		if forward {
			all.members = all.members[over:]
		} else {
			all.members = all.members[:most]
		}
	}
	err = c.fill(ctx, all)
	all.unread = slices.DeleteFunc(all.unread, func(u unread) bool { return statusOf(u) == http.StatusNotFound })
	return all, older, err
}

// oldestFirst reports whether the entries of a log seem to be in the order of their times, or else
// of the numbers in their paths. It is the usual order.
func oldestFirst(entries []*resource) bool {
	first, last := entries[0], entries[len(entries)-1]
	early, late := parseEventTime(createdAt(first)), parseEventTime(createdAt(last))
	if !early.IsZero() && !late.IsZero() && !early.Equal(late) {
		return early.Before(late)
	}
	a, b := first.id(), last.id()
	if len(a) != len(b) {
		return len(a) < len(b)
	}
	return a <= b
}
