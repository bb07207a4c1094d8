package redfishtest

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// slot is a virtual drive with its image.
type slot struct {
	Slot
	image string
}

// manager serves the BMC's own resources: one Manager for each system, as in a multi-node chassis.
func (s *Service) manager(r *http.Request, parts []string, body map[string]any) (*result, *fault) {
	if len(parts) == 0 && r.Method == http.MethodGet {
		var ids []string
		for _, m := range s.systems {
			ids = append(ids, m.manager())
		}
		return ok(s.collection("Managers", "Manager", ids...)), nil
	}
	m := s.managed(at(parts, 0))
	if m == nil {
		return nil, notFound(r.URL.Path)
	}
	path := m.managerPath()
	parts = parts[1:]
	switch {
	case len(parts) == 0 && r.Method == http.MethodGet:
		all := map[string]any{
			"@odata.id":       path,
			"@odata.type":     "#Manager.v1_20_0.Manager",
			"Id":              m.manager(),
			"Name":            "Manager",
			"ManagerType":     "BMC",
			"FirmwareVersion": "3.05",
			"Status":          health("Enabled", "OK"),
			"Actions": map[string]any{
				"#Manager.Reset": map[string]any{
					"target":                            path + "/Actions/Manager.Reset",
					"ResetType@Redfish.AllowableValues": s.bmcResets(),
				},
			},
		}
		if !s.style().MediaOnSystem {
			all["VirtualMedia"] = ref(path + "/VirtualMedia")
		}
		if s.quirks.ManagerLog {
			all["LogServices"] = ref(m.logs())
		}
		return ok(all), nil
	case at(parts, 0) == "LogServices":
		return m.logged(r, parts)
	case len(parts) == 2 && parts[1] == "Manager.Reset" && r.Method == http.MethodPost:
		if t, _ := body["ResetType"].(string); !slices.Contains(s.bmcResets(), t) {
			return nil, refuse(http.StatusBadRequest, "ActionParameterValueNotInList", "That ResetType is not allowed.")
		}
		m.effect("bmc_reset", "")
		clear(s.sessions)
		s.gone = time.Now().Add(s.cfg.ResetTime)
		s.quirks.Hang, s.quirks.HangSystems, s.quirks.HangAfter = false, false, 0 // a reset ends a hang
		return s.changed(), nil
	case at(parts, 0) == "VirtualMedia" && !s.style().MediaOnSystem:
		return m.drives(r, path, parts, body)
	}
	return nil, notFound(r.URL.Path)
}

// drives serves the virtual drives, below a system or a manager.
func (m *system) drives(r *http.Request, below string, parts []string, body map[string]any) (*result, *fault) {
	switch {
	case len(parts) == 1 && r.Method == http.MethodGet:
		var ids []string
		for _, v := range m.s.cfg.Slots {
			ids = append(ids, v.ID)
		}
		path := strings.TrimPrefix(below, "/redfish/v1/") + "/VirtualMedia"
		return ok(m.s.collection(path, "VirtualMedia", ids...)), nil
	case len(parts) >= 2 && m.slots[parts[1]] != nil:
		return m.virtualMedia(r, below+"/VirtualMedia/"+parts[1], parts[1:], body)
	}
	return nil, notFound(r.URL.Path)
}

func (m *system) virtualMedia(r *http.Request, path string, parts []string, body map[string]any) (*result, *fault) {
	v := m.slots[parts[0]]
	action := ""
	if len(parts) == 3 && parts[1] == "Actions" && r.Method == http.MethodPost && !v.Patch {
		action = parts[2]
	}
	image, _ := body["Image"].(string)
	switch {
	case len(parts) == 1 && r.Method == http.MethodGet:
		return ok(v.show(path, m.s.quirks.MediaSpelling)), nil
	case action == "VirtualMedia.InsertMedia":
		if f := m.refuses(body); f != nil {
			return nil, f
		}
		return m.insert(v, image)
	case action == "VirtualMedia.EjectMedia":
		return m.eject(v)
	case len(parts) == 1 && r.Method == http.MethodPatch && v.Patch && !v.Local:
		if image == "" {
			return m.eject(v)
		}
		for _, k := range []string{"Inserted", "WriteProtected"} {
			if body[k] != true {
				return nil, refuse(http.StatusBadRequest, "PropertyMissing",
					"The property "+k+" must be in the request, and true.")
			}
		}
		return m.insert(v, image)
	}
	return nil, notAllowed()
}

// Inserted returns the id of the first virtual drive of a machine that has an image, or "".
func (s *Service) Inserted(id string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.cfg.Slots {
		if s.find(id).slots[v.ID].image != "" {
			return v.ID
		}
	}
	return ""
}

// show returns the VirtualMedia resource.
func (v *slot) show(path string, otherwise bool) any {
	var image any
	via := "NotConnected"
	if v.image != "" {
		image, via = v.image, "URI"
		if u, err := url.Parse(v.image); err == nil && otherwise {
			u.Host = strings.ToUpper(u.Host) + ":80"
			image = u.String() + " "
		}
	}
	all := map[string]any{
		"@odata.id":      path,
		"@odata.type":    "#VirtualMedia.v1_6_4.VirtualMedia",
		"Id":             v.ID,
		"Name":           "Virtual Media",
		"MediaTypes":     v.Types,
		"Image":          image,
		"Inserted":       v.image != "",
		"ConnectedVia":   via,
		"WriteProtected": true,
	}
	actions := map[string]any{"#VirtualMedia.EjectMedia": ref2(path + "/Actions/VirtualMedia.EjectMedia")}
	if !v.Hides || v.image == "" {
		actions["#VirtualMedia.InsertMedia"] = ref2(path + "/Actions/VirtualMedia.InsertMedia")
	}
	if !v.Patch {
		all["Actions"] = actions
	}
	return all
}

// refuses returns the fault in the parameters of InsertMedia, if any.
func (m *system) refuses(body map[string]any) *fault {
	for _, k := range []string{"Inserted", "WriteProtected"} {
		if _, there := body[k]; there && m.s.quirks.MediaStrict {
			return refuse(
				http.StatusBadRequest,
				"ActionParameterUnknown",
				"The action InsertMedia was submitted with the invalid parameter "+k+".",
			)
		}
	}
	for _, k := range m.s.quirks.MediaNeeds {
		if v, _ := body[k].(string); v == "" {
			return refuse(
				http.StatusBadRequest,
				"ActionParameterMissing",
				"The action InsertMedia requires the parameter "+k+" to be present in the request body.",
			)
		}
	}
	return nil
}

func (m *system) insert(v *slot, image string) (*result, *fault) {
	switch {
	case image == "":
		return nil, refuse(http.StatusBadRequest, "ActionParameterMissing", "Image is missing.")
	case v.image != "":
		return nil, refuse(http.StatusConflict, "ResourceInUse", "There is an image in it.")
	}
	if ok := m.s.style().Schemes; len(ok) > 0 && !slices.Contains(ok, strings.Split(image, "://")[0]) {
		return nil, refuse(
			http.StatusBadRequest,
			"ActionParameterNotSupported",
			"The scheme of the parameter Image is not supported: use "+strings.Join(ok, ", ")+".",
		)
	}
	m.effect("media_insert", image)
	if m.s.failTasks != "" {
		return m.s.changed(), nil
	}
	if f := m.media(v, image); f != nil {
		return nil, f
	}
	return m.s.changed(), nil
}

func (m *system) eject(v *slot) (*result, *fault) {
	if v.image == "" {
		return nil, refuse(http.StatusConflict, "ResourceNotFound", "There is nothing in it.")
	}
	m.effect("media_eject", v.image)
	if f := m.media(v, ""); f != nil {
		return nil, f
	}
	return m.s.changed(), nil
}

// media sets the image in a drive.
func (m *system) media(v *slot, image string) *fault {
	if m.s.ignored("media") {
		return nil
	}
	if m.chassis != nil && v == m.slots["Cd1"] {
		if err := m.chassis.SetMedia(image); err != nil {
			return failed(err)
		}
	}
	v.image = image
	return nil
}

func ref2(target string) map[string]string { return map[string]string{"target": target} }
