package redfish

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc/internal/access"
	"github.com/holdfast-metal/holdfast/providers/internal/text"
)

// mostEvents bounds how many entries of an event log are read.
const mostEvents = 200

// Events reads the newest entries of the log of the machine's hardware, or of the one with an id,
// the oldest first. An entry that vanishes meanwhile, or cannot be read, costs that entry only. A
// note before them says what is not read.
func (h *Host) Events(ctx context.Context, log string) ([]providers.Event, error) {
	l, err := h.findLog(ctx, log)
	if err != nil {
		return nil, err
	}
	entries, older, err := h.c.newestEntries(ctx, l, mostEvents)
	if err != nil {
		return nil, err
	}
	for _, u := range entries.unread {
		if len(entries.members) == 0 && (busy(u) || statusOf(u)/100 == 5) { // it can be read another time
			return nil, fmt.Errorf("read the entries of log %s: %w", l.name, u)
		}
	}
	var all []providers.Event
	for _, e := range entries.members {
		all = append(all, providers.Event{
			ID:       e.id(),
			At:       parseEventTime(createdAt(e)),
			Severity: severityOf(e),
			Sensor:   text.Clip(e.Text("SensorType"), 100),
			Message:  text.Clip(cmp.Or(e.Text("Message"), e.Text("Name")), 1000),
			Log:      l.name,
		})
	}
	slices.SortFunc(all, func(a, b providers.Event) int {
		return cmp.Or(a.At.Compare(b.At), len(a.ID)-len(b.ID), strings.Compare(a.ID, b.ID))
	})
	var gaps []string
	if older > 0 {
		gaps = append(gaps, fmt.Sprintf("%d older entries are not read", older))
	}
	for i, u := range entries.unread {
		if i == 3 {
			gaps = append(gaps, fmt.Sprintf("and %d others", len(entries.unread)-i))
			break
		}
		gaps = append(gaps, "not read: "+text.Clip(u.Error(), access.MaxText))
	}
	if len(gaps) > 0 {
		note := providers.Event{ID: providers.NoteID, Log: l.name, Message: "log " + l.name + ": " + strings.Join(gaps, "; ")}
		all = slices.Insert(all, 0, note)
	}
	return all, nil
}

// createdAt returns the time of an entry as the service writes it.
func createdAt(e *resource) string {
	if s := e.Word("Created"); s != "" {
		return s
	}
	return e.Word("EventTimestamp")
}

// severityOf returns the severity of an entry. Newer services have it under another name.
func severityOf(e *resource) string {
	if s := e.Word("Severity"); s != "" {
		return s
	}
	return e.Word("MessageSeverity")
}

// parseEventTime parses the time of an entry, which may lack seconds or a zone: it is UTC then, as
// BMCs keep it. It may also be a number of seconds or milliseconds since 1970. parseEventTime
// returns the zero time for anything else.
func parseEventTime(s string) time.Time {
	s = strings.TrimSpace(s)
	s = strings.TrimSuffix(strings.TrimSuffix(s, " UTC"), " GMT")
	for _, layout := range []string{
		time.RFC3339, "2006-01-02T15:04Z07:00", "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05",
		"2006-01-02 15:04", "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05 Z07:00", "2006-01-02 15:04:05 Z0700",
		"2006-01-02T15:04:05Z0700", "2006/01/02 15:04:05", "01/02/2006 15:04:05", "01/02/2006 15:04", time.ANSIC,
		"2 Jan 2006 15:04:05", "Jan 2 2006 15:04:05",
	} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC()
		}
	}
	const firstMilli = 1e11 // seconds of the year 5138, milliseconds of 1973
	switch n, err := strconv.ParseInt(s, 10, 64); {
	case err != nil || n < 1e8: // a time since the BMC has started
	case n < firstMilli:
		return time.Unix(n, 0).UTC()
	case n < 1000*firstMilli:
		return time.UnixMilli(n).UTC()
	}
	return time.Time{}
}

// ClearEvents empties the log of the machine's hardware, or the one with an id, and no other one:
// security and audit logs are not for Holdfast to clear. Finding it can take a slow BMC longer than
// any effect may wait.
func (h *Host) ClearEvents(ctx context.Context, log string) error {
	const what = "clear the event log"
	l, err := h.findLog(providers.Unhurried(ctx), log)
	if err != nil {
		return access.Classify("find the event log", err, false)
	}
	if log == "" && logRank(l.name, l.Text("Name"), l.Text("LogEntryType")) == unclearRank {
		return providers.Errorf(providers.Unsupported, what,
			"it is unclear whether log %s is the hardware's: name it to clear it (--log %s)", l.name, l.name)
	}
	target := l.clear()
	if target == "" {
		return providers.Errorf(providers.Unsupported, what, "the BMC shows no action ClearLog for log %s", l.name)
	}
	sends, err := providers.Confirmed(ctx, what)
	if err == nil {
		_, err = h.c.do(sends, request{method: http.MethodPost, path: target, body: struct{}{}})
	}
	return err
}

// Light reads the locator light of the system, from the new property or the old one. An old light
// that is lit without blinking is unknown: on a Dell at rest it shows that all is well.
func (h *Host) Light(ctx context.Context) (providers.LightState, error) {
	s, err := h.read(ctx)
	switch {
	case err != nil:
		return providers.LightUnknown, err
	case s.LocationIndicator != nil && *s.LocationIndicator, s.LocationIndicator == nil && s.IndicatorLED == "Blinking":
		return providers.LightOn, nil
	case s.LocationIndicator != nil, s.IndicatorLED == "Off":
		return providers.LightOff, nil
	}
	return providers.LightUnknown, nil
}

// Identify switches the locator light of the system, through the new property or the old one.
func (h *Host) Identify(ctx context.Context, on bool) error {
	s, err := h.known(providers.Unhurried(ctx), bootFresh)
	if err != nil {
		return err
	}
	var body any
	switch {
	case s.LocationIndicator != nil:
		body = map[string]bool{"LocationIndicatorActive": on}
	case s.IndicatorLED != "" && on:
		body = map[string]string{"IndicatorLED": "Blinking"}
	case s.IndicatorLED != "":
		body = map[string]string{"IndicatorLED": "Off"}
	default:
		return providers.Errorf(providers.Unsupported, "switch the locator light",
			"the BMC shows no locator light of the system")
	}
	err = h.change(ctx, request{method: http.MethodPatch, path: s.ODataID, body: body, match: s.ETag})
	// A 412 means that nothing was done. Changes by others do not matter to a light.
	if statusOf(err) == http.StatusPreconditionFailed {
		err = h.change(ctx, request{method: http.MethodPatch, path: s.ODataID, body: body})
	}
	if providers.ClassOf(err) != providers.Late {
		h.stale()
	}
	return err
}

// ResetBMC restarts the manager. That ends its sessions, so ours is dropped.
func (h *Host) ResetBMC(ctx context.Context) error {
	reset, err := h.managerReset(providers.Unhurried(ctx))
	if err != nil {
		return err
	}
	t, err := pick("reset the BMC", reset.Types, "GracefulRestart", "ForceRestart")
	if err != nil {
		return err
	}
	body := map[string]string{"ResetType": t}
	if _, err := h.c.do(ctx, request{method: http.MethodPost, path: reset.Target, body: body}); err != nil {
		return err
	}
	h.c.cfg.HTTP.CloseIdleConnections()
	return nil
}

// managerReset returns the action that restarts the manager. It reads it once.
func (h *Host) managerReset(ctx context.Context) (*resetAction, error) {
	h.mu.Lock()
	known := h.reset
	h.mu.Unlock()
	if known != nil {
		return known, nil
	}
	path, err := h.manager(ctx)
	if err != nil {
		return nil, err
	}
	m, err := h.c.readShown(ctx, path)
	if err != nil {
		return nil, err
	}
	reset := resetOf(m.Object, "#Manager.Reset")
	if reset.Target == "" {
		return nil, providers.Errorf(providers.Unsupported, "reset the BMC", "its manager has no action Reset")
	}
	types, err := h.resetTypes(ctx, reset)
	if err != nil {
		return nil, err
	}
	reset.Types = types
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reset = &reset
	return h.reset, nil
}
