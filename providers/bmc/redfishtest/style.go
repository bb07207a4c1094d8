package redfishtest

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Style describes how a service presents itself within the specification: paths, spelling, and the
// choices that the specification leaves open. The zero value is a plain service.
type Style struct {
	Managers  []string // ids, by system; default: those of the systems
	ChassisID string   // default "1"
	LogID     string   // of the event log; default "SEL"
	LogType   string   // its LogEntryType; default "SEL"; "-" shows none
	Others    []string // ids of further systems, which are not machines

	Slashes       bool // references end with a slash
	FullLocations bool // Location headers are absolute URLs
	Changed       int  // status of an accepted change: 200, 202 with a task, default 204
	TaskTime      time.Duration
	Registry      string   // prefix of MessageIds; default Base.1.18
	NoMessages    bool     // errors have MessageIds without texts
	POSTStatus    int      // of a change that POST does not allow; default 409
	StrongETags   bool     // default: weak ones
	NeedsMatch    bool     // 428 for a PATCH without If-Match
	OldLight      bool     // IndicatorLED, not LocationIndicatorActive
	Settings      string   // id of a settings resource for the override, which applies at the next boot
	Targets       []string // allowable boot targets
	BMCResets     []string // allowable ResetTypes of a manager
	MediaOnSystem bool     // virtual drives are below the system
	Schemes       []string // of images that virtual drives accept; default all
}

func (s *Service) style() *Style { return &s.cfg.Style }

// manager returns the id of a machine's manager.
func (m *system) manager() string {
	if ids := m.s.style().Managers; m.number < len(ids) {
		return ids[m.number]
	}
	return m.id
}

func (m *system) managerPath() string { return "/redfish/v1/Managers/" + m.manager() }

// managed returns the machine of a manager.
func (s *Service) managed(id string) *system {
	for _, m := range s.systems {
		if m.manager() == id {
			return m
		}
	}
	return nil
}

func (s *Service) chassisID() string   { return cmp.Or(s.style().ChassisID, "1") }
func (s *Service) chassisPath() string { return "/redfish/v1/Chassis/" + s.chassisID() }
func (s *Service) logID() string       { return cmp.Or(s.style().LogID, "SEL") }

func (s *Service) bmcResets() []string {
	if t := s.style().BMCResets; len(t) > 0 {
		return t
	}
	return []string{"GracefulRestart", "ForceRestart"}
}

func (s *Service) targets() []string {
	if t := s.style().Targets; len(t) > 0 {
		return t
	}
	return []string{"None", "Pxe", "Hdd", "Cd", "UefiHttp", "BiosSetup"}
}

// slashed appends a slash to all references in a body.
func slashed(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			if text, ok := e.(string); ok && k == "@odata.id" && !strings.Contains(text, "#") {
				v[k] = strings.TrimSuffix(text, "/") + "/"
				continue
			}
			v[k] = slashed(e)
		}
	case []any:
		for i, e := range v {
			v[i] = slashed(e)
		}
	}
	return v
}

// inPOST returns the fault for a change while a machine is in POST.
func (s *Service) inPOST() *fault {
	return refuse(
		cmp.Or(s.style().POSTStatus, http.StatusConflict),
		"UnableToModifyDuringSystemPOST",
		"The system is in POST.",
	)
}

// task is an accepted change that runs in the background.
type task struct{ due time.Time }

const (
	tasksPath    = "/redfish/v1/TaskService/Tasks"
	monitorsPath = "/redfish/v1/TaskService/TaskMonitors"
)

// changed returns the response to an accepted change.
func (s *Service) changed() *result {
	switch s.style().Changed {
	case http.StatusOK:
		return ok(map[string]any{
			"error": map[string]any{
				"code":                  s.messageID("Success"),
				"message":               "Successfully Completed Request",
				"@Message.ExtendedInfo": []any{map[string]any{"MessageId": s.messageID("Success")}},
			},
		})
	case http.StatusAccepted:
		s.tasks = append(s.tasks, task{time.Now().Add(s.style().TaskTime)})
		id := fmt.Sprint(len(s.tasks))
		return &result{
			status: http.StatusAccepted,
			header: map[string]string{"Location": monitorsPath + "/" + id},
			body:   s.taskBody(id, len(s.tasks)-1),
		}
	}
	return &result{status: http.StatusNoContent}
}

func (s *Service) taskBody(id string, n int) map[string]any {
	state, status := "Running", "OK"
	if !time.Now().Before(s.tasks[n].due) {
		if state = "Completed"; s.failTasks != "" {
			state, status = "Exception", "Critical"
		}
	}
	body := map[string]any{
		"@odata.id":   tasksPath + "/" + id,
		"@odata.type": "#Task.v1_7_4.Task",
		"Id":          id,
		"Name":        "Task",
		"TaskState":   state,
		"TaskStatus":  status,
		"TaskMonitor": monitorsPath + "/" + id,
	}
	if state == "Exception" {
		body["Messages"] = []any{map[string]any{"MessageId": s.messageID("OperationFailed"), "Message": s.failTasks}}
	}
	return body
}

// FailTasks makes all later tasks fail with text and without effect, until text is empty.
func (s *Service) FailTasks(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failTasks = text
}

// taskService serves tasks and their monitors.
func (s *Service) taskService(r *http.Request, parts []string) (*result, *fault) {
	var n int
	_, err := fmt.Sscan(at(parts, 1), &n)
	if r.Method != http.MethodGet || err != nil || n < 1 || n > len(s.tasks) ||
		!slices.Contains([]string{"Tasks", "TaskMonitors"}, parts[0]) {
		return nil, notFound(r.URL.Path)
	}
	body := s.taskBody(parts[1], n-1)
	if parts[0] == "TaskMonitors" && body["TaskState"] == "Running" {
		return &result{
			status: http.StatusAccepted,
			header: map[string]string{"Location": monitorsPath + "/" + parts[1]},
			body:   body,
		}, nil
	}
	return ok(body), nil
}

func (s *Service) messageID(name string) string {
	return cmp.Or(s.style().Registry, "Base.1.18") + "." + name
}

// settings returns the settings resource of a machine, which applies at the next boot.
func (m *system) settings() any {
	return map[string]any{
		"@odata.id":   m.path() + "/" + m.s.style().Settings,
		"@odata.type": "#ComputerSystem.v1_23_0.ComputerSystem",
		"@odata.etag": m.etag(),
		"Id":          m.s.style().Settings,
		"Name":        "Computer System Future State",
		"Boot":        m.boot(Override{m.target, m.enabled, m.mode}),
	}
}

// boot returns the Boot property for an override.
func (m *system) boot(o Override) map[string]any {
	boot := map[string]any{
		"BootSourceOverrideEnabled": o.Enabled, "BootSourceOverrideTarget": o.Target,
		"BootSourceOverrideTarget@Redfish.AllowableValues":  m.s.targets(),
		"BootSourceOverrideEnabled@Redfish.AllowableValues": []string{"Disabled", "Once", "Continuous"},
	}
	if !m.s.quirks.NoMode {
		boot["BootSourceOverrideMode"] = o.Mode
		boot["BootSourceOverrideMode@Redfish.AllowableValues"] = m.modes()
	}
	return boot
}

// lit adds the locator light to the resource of a machine.
func (m *system) lit(all map[string]any) {
	if !m.s.style().OldLight {
		all["LocationIndicatorActive"] = m.led
		return
	}
	all["IndicatorLED"] = map[bool]string{true: "Blinking", false: "Off"}[m.led]
}

// setLight sets the locator light, through the property that the style has.
func (m *system) setLight(property string, v any) *fault {
	switch on, isBool := v.(bool); {
	case property == "LocationIndicatorActive" && !m.s.style().OldLight && isBool:
		m.led = on
	case property == "IndicatorLED" && m.s.style().OldLight && slices.Contains([]any{"Blinking", "Lit", "Off"}, v):
		m.led = v != "Off"
	default:
		return refuse(http.StatusBadRequest, "PropertyUnknown", "The property "+property+" cannot be changed.")
	}
	m.effect("identify", fmt.Sprint(m.led))
	m.version++
	return nil
}
