package redfish

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/stmcginnis/gofish/redfish"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc/internal/access"
	"github.com/holdfast-metal/holdfast/providers/internal/text"
)

// Events reads the event log, the oldest entry first.
func (h *Host) Events(ctx context.Context) ([]providers.Event, error) {
	services, err := h.eventLogs(ctx)
	if err != nil {
		return nil, err
	}
	var all []providers.Event
	for _, l := range services {
		entries, err := l.Entries()
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			t, _ := time.Parse(time.RFC3339, e.Created)
			all = append(all, providers.Event{
				ID:       e.ID,
				At:       t,
				Severity: string(e.Severity),
				Sensor:   string(e.SensorType),
				Message:  text.Clip(e.Message, 1000),
			})
		}
	}
	slices.SortFunc(all, func(a, b providers.Event) int {
		return cmp.Or(a.At.Compare(b.At), len(a.ID)-len(b.ID), strings.Compare(a.ID, b.ID))
	})
	return all, nil
}

// eventLogs returns the log services that form the event log: those of type SEL, of the system or
// else of its manager (as Dell has it). If the BMC marks none as SEL, it returns all logs of the
// first of the two that has any.
func (h *Host) eventLogs(ctx context.Context) ([]*redfish.LogService, error) {
	s, err := h.known(ctx, bootFresh)
	if err != nil {
		return nil, err
	}
	all, sel, err := h.logsBelow(ctx, s.LogServices.ID)
	if err != nil || len(sel) > 0 {
		return sel, err
	}
	manager, err := h.manager(ctx)
	if err != nil {
		return nil, err
	}
	var m struct{ LogServices link }
	if _, err := h.c.expect(ctx, manager, &m); err != nil {
		return nil, err
	}
	more, sel, err := h.logsBelow(ctx, m.LogServices.ID)
	switch {
	case err != nil || len(sel) > 0:
		return sel, err
	case len(all) > 0:
		return all, nil
	case len(more) > 0:
		return more, nil
	}
	return nil, providers.Errorf(providers.Unsupported, "find the event log",
		"the BMC shows no log services, neither for the system nor for its manager")
}

// logsBelow reads a collection of log services. sel has those of type SEL.
func (h *Host) logsBelow(ctx context.Context, collection string) (all, sel []*redfish.LogService, err error) {
	if collection == "" {
		return nil, nil, nil
	}
	if all, err = redfish.ListReferencedLogServices(view{ctx, h.c}, collection); err != nil {
		return nil, nil, err
	}
	for _, l := range all {
		if l.LogEntryType == redfish.SELLogEntryTypes || strings.EqualFold(l.ID, "SEL") {
			sel = append(sel, l)
		}
	}
	return all, sel, nil
}

// ClearEvents empties the event log. Several log services are emptied one after the other. Finding
// them can take a slow BMC longer than any effect may wait, so each one is confirmed separately.
// Once the first is empty, it would be wrong to return Late for another: something was done.
func (h *Host) ClearEvents(ctx context.Context) error {
	const what = "clear the event log"
	targets, err := h.clearTargets(providers.Unhurried(ctx))
	if err != nil {
		return err
	}
	if len(targets) == 0 {
		return providers.Errorf(providers.Unsupported, what, "the BMC shows no action ClearLog for the event log")
	}
	for i, t := range targets {
		sends, err := providers.Confirmed(ctx, what)
		if err == nil {
			_, err = h.c.do(sends, request{method: http.MethodPost, path: t, body: struct{}{}})
		}
		if i > 0 && providers.ClassOf(err) == providers.Late {
			return providers.Errorf(providers.Transient, what, "%w",
				access.Disagree("%d of %d logs are cleared: %w", i, len(targets), err))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// clearTargets returns the actions that empty the event log.
func (h *Host) clearTargets(ctx context.Context) (targets []string, err error) {
	services, err := h.eventLogs(ctx)
	if err != nil {
		return nil, err
	}
	for _, l := range services {
		var log struct {
			Actions struct {
				Clear struct {
					Target string `json:"target"`
				} `json:"#LogService.ClearLog"`
			}
		}
		if _, err := h.c.get(ctx, l.ODataID, &log); err != nil {
			return nil, err
		}
		if t := log.Actions.Clear.Target; t != "" {
			targets = append(targets, t)
		}
	}
	slices.Sort(targets) // members are read in parallel
	return targets, nil
}

// Light reads the locator light of the system, from the new property or the old one.
func (h *Host) Light(ctx context.Context) (providers.LightState, error) {
	s, err := h.read(ctx)
	switch {
	case err != nil:
		return providers.LightUnknown, err
	case s.LocationIndicator != nil && *s.LocationIndicator,
		s.LocationIndicator == nil && (s.IndicatorLED == "Blinking" || s.IndicatorLED == "Lit"):
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
