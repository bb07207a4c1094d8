package redfishtest

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// system is one machine.
type system struct {
	s       *Service
	id      string
	number  int
	chassis Chassis // nil: the machine only exists in memory
	up      bool    // of a chassis: the firmware is done

	on       bool
	since    time.Time // of the power state
	pending  []pending
	version  int // of the resource, for its ETag
	enabled  string
	target   string
	mode     string
	active   Override // override of the last boot, if the style has Settings
	consumed bool     // the firmware has read the override since power on
	booted   string   // target of the last boot
	led      bool
	log      []entry
	slots    map[string]*slot
}

// pending is an accepted change of the power.
type pending struct {
	at time.Time
	on bool
}

type entry struct {
	at       time.Time
	severity string
	message  string
}

func newSystem(s *Service, id string, n int) *system {
	m := &system{
		s:        s,
		id:       id,
		number:   n,
		on:       !s.cfg.Off,
		since:    time.Now().Add(-time.Hour),
		enabled:  "Disabled",
		target:   "None",
		mode:     "UEFI",
		consumed: true,
	}
	m.active = Override{m.target, m.enabled, m.mode}
	m.chassis = s.cfg.Chassis[id]
	m.slots = map[string]*slot{}
	for _, v := range s.cfg.Slots {
		m.slots[v.ID] = &slot{Slot: v}
	}
	m.log = []entry{{time.Now().Add(-time.Hour), "OK", "The log was cleared."}}
	return m
}

// advance applies the changes that are due.
func (m *system) advance(now time.Time) {
	if m.chassis != nil { // its state comes from sync
		return
	}
	for len(m.pending) > 0 && !m.pending[0].at.After(now) {
		p := m.pending[0]
		m.pending = m.pending[1:]
		if p.on != m.on {
			m.on, m.since, m.consumed = p.on, p.at, false
			m.version++
		}
	}
	if m.on && !m.consumed && !m.inPOST(now) {
		m.consumed = true
		m.booted = ""
		m.active = Override{m.target, m.enabled, m.mode}
		if m.enabled != "Disabled" {
			m.booted = m.target
		}
		if m.enabled == "Once" {
			m.enabled, m.target = "Disabled", "None"
			m.version++
		}
	}
}

func (m *system) inPOST(now time.Time) bool {
	if m.chassis != nil {
		return m.on && !m.up
	}
	return m.on && now.Before(m.since.Add(m.s.cfg.PostTime))
}

func (m *system) progress(now time.Time) string {
	switch {
	case m.s.quirks.Progress != "":
		return m.s.quirks.Progress
	case !m.on:
		return "None"
	case m.inPOST(now):
		return "MemoryInitializationStarted"
	case m.chassis == nil && now.Before(m.since.Add(m.s.cfg.PostTime+m.s.cfg.BootTime)):
		return "OSBootStarted"
	}
	return "OSRunning"
}

func (m *system) path() string { return "/redfish/v1/Systems/" + m.id }

func (m *system) etag() string {
	if m.s.style().StrongETags {
		return strconv.Quote(strconv.Itoa(m.version))
	}
	return fmt.Sprintf(`W/"%d"`, m.version)
}

func (m *system) effect(name, detail string) {
	m.s.effects = append(m.s.effects, Effect{m.id, name, detail, time.Now(), m.s.ignored(name)})
}

// ignored reports whether an effect is accepted without effect.
func (s *Service) ignored(name string) bool { return slices.Contains(s.quirks.Ignore, name) }

// clearLog is the path of LogService.ClearLog below a log service.
const clearLog = "/Actions/LogService.ClearLog"

// logIDs returns the ids of the log services. All entries are in the first.
func (m *system) logIDs() []string {
	ids := []string{m.s.logID()}
	if m.s.quirks.TwoLogs {
		ids = append(ids, m.s.logID()+"2")
	}
	return append(ids, m.s.quirks.OtherLogs...)
}

func (m *system) answer(r *http.Request, parts []string, body map[string]any) (*result, *fault) {
	switch {
	case len(parts) == 0 && r.Method == http.MethodGet:
		res := ok(m.show())
		res.header = map[string]string{"ETag": m.etag()}
		return res, nil
	case len(parts) == 0 && r.Method == http.MethodPatch:
		return m.patch(r, body, false)
	case len(parts) == 1 && parts[0] == m.s.style().Settings && r.Method == http.MethodGet:
		res := ok(m.settings())
		res.header = map[string]string{"ETag": m.etag()}
		return res, nil
	case len(parts) == 1 && parts[0] == m.s.style().Settings && r.Method == http.MethodPatch:
		return m.patch(r, body, true)
	case at(parts, 0) == "VirtualMedia" && m.s.style().MediaOnSystem:
		return m.drives(r, m.path(), parts, body)
	case len(parts) == 2 && parts[0] == "Actions" && parts[1] == "ComputerSystem.Reset" && r.Method == http.MethodPost:
		return m.reset(body)
	case at(parts, 0) == "LogServices":
		return m.logged(r, parts)
	case len(parts) == 1 && parts[0] == "ResetActionInfo" && r.Method == http.MethodGet:
		return ok(map[string]any{
			"@odata.id":   m.path() + "/ResetActionInfo",
			"@odata.type": "#ActionInfo.v1_4_2.ActionInfo",
			"Id":          "ResetActionInfo",
			"Name":        "Reset Action Info",
			"Parameters": []any{
				map[string]any{
					"Name":            "ResetType",
					"Required":        true,
					"DataType":        "String",
					"AllowableValues": m.resetTypes(),
				},
			},
		}), nil
	case r.Method == http.MethodGet:
		return m.parts(strings.TrimSuffix(r.URL.Path, "/"), parts)
	}
	return nil, notAllowed()
}

// logged serves the log services, below a system or a manager.
func (m *system) logged(r *http.Request, parts []string) (*result, *fault) {
	path := strings.TrimSuffix(r.URL.Path, "/")
	switch {
	case !strings.HasPrefix(path, m.logs()):
		return nil, notFound(path)
	case r.Method == http.MethodGet:
		return m.parts(path, parts)
	case r.Method == http.MethodPost && slices.Contains(m.logIDs(), at(parts, 1)) &&
		strings.TrimPrefix(path, m.logs()+"/"+parts[1]) == clearLog:
		m.effect("clear_log", strings.TrimPrefix(parts[1], m.s.logID()))
		if !m.s.ignored("clear_log") && parts[1] == m.s.logID() {
			m.log = nil
		}
		return m.s.changed(), nil
	}
	return nil, notAllowed()
}

func (m *system) resetTypes() []string {
	s := m.s
	if s.quirks.TypesByState && !m.on {
		return []string{"On"}
	}
	if s.quirks.TypesByState {
		return []string{"ForceOff", "GracefulShutdown", "ForceRestart"}
	}
	if len(s.quirks.ResetTypes) > 0 {
		return s.quirks.ResetTypes
	}
	return []string{"On", "ForceOff", "GracefulShutdown", "ForceRestart"}
}

// reset serves ComputerSystem.Reset.
func (m *system) reset(body map[string]any) (*result, *fault) {
	t, _ := body["ResetType"].(string)
	if !slices.Contains(m.resetTypes(), t) {
		return nil, refuse(http.StatusBadRequest, "ActionParameterValueNotInList", "ResetType "+t+" is not allowed.")
	}
	now := time.Now()
	if m.s.quirks.InPOST && m.inPOST(now) {
		return nil, m.s.inPOST()
	}
	on := t == "On" || t == "ForceOn" || t == "ForceRestart"
	if m.s.quirks.OffIsAnError && on == m.on && t != "ForceRestart" {
		return nil, refuse(http.StatusBadRequest, "OperationFailed", "The system is in that state already.")
	}
	m.effect("reset", t)
	if m.s.ignored("reset") || t == "GracefulShutdown" && m.progress(now) != "OSRunning" {
		return m.pressed(), nil
	}
	if m.chassis != nil {
		if err := m.chassis.Reset(t); err != nil {
			return nil, failed(err)
		}
		return m.pressed(), nil
	}
	due := now.Add(m.s.cfg.PowerTime)
	if t == "ForceRestart" {
		m.pending = append(m.pending, pending{due, false})
	}
	m.pending = append(m.pending, pending{due, on})
	m.advance(now)
	return m.pressed(), nil
}

// pressed returns the response to a press.
func (m *system) pressed() *result {
	res := m.s.changed()
	res.press = true
	return res
}

// patch changes the boot override or the locator light, at the system or at its settings resource.
func (m *system) patch(r *http.Request, body map[string]any, settings bool) (*result, *fault) {
	if m.s.style().NeedsMatch && r.Header.Get("If-Match") == "" {
		return nil, refuse(
			http.StatusPreconditionRequired,
			"PreconditionRequired",
			"The request must have an If-Match header.",
		)
	}
	match := r.Header.Get("If-Match")
	if match != "" && match != "*" && (m.s.quirks.OwnETag || match != m.etag()) {
		return nil, refuse(
			http.StatusPreconditionFailed,
			"PreconditionFailed",
			"The resource has changed: its ETag is another.",
		)
	}
	if m.s.quirks.InPOST && m.inPOST(time.Now()) {
		return nil, m.s.inPOST()
	}
	for k, v := range body {
		switch k {
		case "Boot":
			if settings != (m.s.style().Settings != "") {
				return nil, refuse(http.StatusBadRequest, "PropertyNotWritable", "The property Boot is read-only.")
			}
			change, _ := v.(map[string]any)
			if f := m.setBoot(change); f != nil {
				return nil, f
			}
		default:
			if f := m.setLight(k, v); f != nil {
				return nil, f
			}
		}
	}
	return m.s.changed(), nil
}

// modes returns the supported boot modes.
func (m *system) modes() []string {
	if m.s.quirks.UEFIOnly {
		return []string{"UEFI"}
	}
	return []string{"UEFI", "Legacy"}
}

func (m *system) setBoot(change map[string]any) *fault {
	next := *m
	for k, v := range change {
		value, _ := v.(string)
		allowed := m.modes()
		to := &next.mode
		switch k {
		case "BootSourceOverrideTarget":
			allowed, to = m.s.targets(), &next.target
		case "BootSourceOverrideEnabled":
			allowed, to = []string{"Disabled", "Once", "Continuous"}, &next.enabled
		case "BootSourceOverrideMode":
			if m.s.quirks.RefuseMode || m.s.quirks.NoMode {
				return refuse(cmp.Or(m.s.quirks.ModeStatus, http.StatusBadRequest), "PropertyNotWritable",
					"BootSourceOverrideMode cannot be changed.")
			}
		default:
			return refuse(http.StatusBadRequest, "PropertyUnknown", "The property "+k+" is not known.")
		}
		if !slices.Contains(allowed, value) {
			return refuse(
				http.StatusBadRequest,
				"PropertyValueNotInList",
				"The value "+value+" is not allowed for "+k+".",
			)
		}
		*to = value
	}
	m.effect("boot", strings.Join([]string{next.target, next.enabled, next.mode}, " "))
	if !m.s.ignored("boot") && m.s.failTasks == "" {
		if m.chassis != nil {
			if err := m.chassis.SetBoot(Override{next.target, next.enabled, next.mode}); err != nil {
				return failed(err)
			}
		}
		m.target, m.enabled, m.mode = next.target, next.enabled, next.mode
	}
	m.version++
	return nil
}
