package redfishtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// The ways in which a service alters its answers (Quirks.Odd).
const (
	OddTypes        = "types"
	OddNulls        = "nulls"
	OddNoLinks      = "no links"
	OddLinks        = "link forms"
	OddForeign      = "foreign links"
	OddDead         = "dead links"
	OddPages        = "pages"
	OddInline       = "inline"
	OddPadded       = "padded"
	OddPlaceholders = "placeholders"
	OddCase         = "case"
	OddBytes        = "bytes"
	OddHTML         = "html"
	OddManagers     = "managers"
	OddSlashes      = "slashes"
	OddJSON         = "json"
)

// auxiliary is the id of the controller that OddManagers adds.
const auxiliary = "AUX"

// isOdd reports whether the service alters its answers in a way.
func (q *Quirks) isOdd(way string) bool { return slices.Contains(q.Odd, way) }

// alter returns an answer as the quirks alter it. The lock is held.
func (s *Service) alter(r *http.Request, body any) any {
	if len(s.quirks.Odd) == 0 || body == nil || r.Method != http.MethodGet {
		return body
	}
	b, err := json.Marshal(body)
	if err != nil {
		return body
	}
	var plain map[string]any
	if json.Unmarshal(b, &plain) != nil {
		return body
	}
	path := strings.TrimRight(r.URL.Path, "/")
	if members, ok := plain["Members"].([]any); ok && !strings.HasSuffix(path, "/Sessions") {
		s.alterMembers(r, path, plain, members)
	}
	q := &s.quirks
	if q.isOdd(OddNoLinks) && strings.Contains(path, "/Systems/") {
		plain["Links"] = nil
	}
	var v any = plain
	for _, way := range []struct {
		name  string
		alter func(name string, v any) any
	}{
		{OddNulls, toNull},
		{OddPadded, toPadded},
		{OddPlaceholders, toPlaceholder},
		{OddTypes, toOtherType},
		{OddLinks, toOtherLink},
	} {
		if q.isOdd(way.name) {
			v = each("", v, way.alter)
		}
	}
	if q.isOdd(OddCase) {
		v = lowered(v)
	}
	return v
}

// alterMembers alters the members of a collection. The lock is held.
func (s *Service) alterMembers(r *http.Request, path string, body map[string]any, members []any) {
	q := &s.quirks
	if q.isOdd(OddManagers) && strings.HasSuffix(path, "/Managers") {
		members = append([]any{ref(path + "/" + auxiliary)}, members...)
	}
	only := strings.HasSuffix(path, "/Systems") || strings.HasSuffix(path, "/Managers") // one more would be unclear
	if q.isOdd(OddInline) && !only {
		for i, m := range members {
			link, _ := m.(map[string]any)["@odata.id"].(string)
			inside := r.Clone(r.Context())
			inside.URL.Path, inside.URL.RawQuery = link, ""
			if full, f := s.answer(inside, nil); f == nil {
				members[i] = full.body
			}
		}
	}
	if q.isOdd(OddForeign) && !only {
		members = append([]any{ref("https://elsewhere.example/redfish/v1/x")}, members...)
	}
	if q.isOdd(OddDead) && !only {
		members = append([]any{ref(path + "/gone")}, members...)
	}
	if q.isOdd(OddPages) {
		skip, _ := strconv.Atoi(r.URL.Query().Get("$skip"))
		if skip = min(max(skip, 0), len(members)); skip+1 < len(members) {
			body["Members@odata.nextLink"] = fmt.Sprintf("%s?$skip=%d", path, skip+1)
		}
		members = members[skip:min(skip+1, len(members))]
	}
	body["Members"] = members
}

// each replaces all values inside v, which has a name.
func each(name string, v any, alter func(name string, v any) any) any {
	switch inside := v.(type) {
	case map[string]any:
		for k, e := range inside {
			inside[k] = each(k, e, alter)
		}
	case []any:
		for i, e := range inside {
			inside[i] = each(name, e, alter)
		}
	}
	return alter(name, v)
}

func toNull(name string, v any) any {
	switch name {
	case "SKU", "UUID", "Oem", "Name", "Description", "SensorType", "LinkStatus", "SpeedMbps", "MediaType", "Revision",
		"ServiceEnabled", "LogEntryType", "FirmwareVersion", "HostName", "ConnectedVia", "LastStateTime":
		return nil
	}
	return v
}

// identifies reports whether a property identifies a part.
func identifies(name string) bool {
	return slices.Contains([]string{"SerialNumber", "Manufacturer", "Model", "SKU", "UUID"}, name)
}

func toPadded(name string, v any) any {
	if s, ok := v.(string); ok && (identifies(name) || name == "DeviceLocator" || name == "Socket") {
		return " " + s + "    \x00\x00"
	}
	return v
}

func toPlaceholder(name string, v any) any {
	if _, ok := v.(string); ok && identifies(name) {
		return map[bool]string{true: "To be filled by O.E.M.", false: "N/A"}[name == "SerialNumber"]
	}
	return v
}

func toOtherType(name string, v any) any {
	switch is := v.(type) {
	case float64:
		return strconv.FormatFloat(is, 'f', -1, 64)
	case bool:
		return strconv.FormatBool(is)
	case string:
		if n, err := strconv.Atoi(is); err == nil {
			return n
		}
		if name == "@odata.etag" {
			return 87422082150
		}
	case []any:
		var texts []string
		for _, e := range is {
			text, ok := e.(string)
			if !ok {
				return v
			}
			texts = append(texts, text)
		}
		return strings.Join(texts, ", ")
	}
	return v
}

func toOtherLink(name string, v any) any {
	link, _ := v.(map[string]any)
	path, ok := link["@odata.id"].(string)
	switch {
	case !ok || len(link) > 1:
		return v
	case name == "Members":
		return map[string]any{"href": path}
	}
	return path
}

// lowered returns v with all names in lower case at their beginning.
func lowered(v any) any {
	switch inside := v.(type) {
	case map[string]any:
		all := map[string]any{}
		for k, e := range inside {
			all[strings.ToLower(k[:1])+k[1:]] = lowered(e)
		}
		return all
	case []any:
		for i, e := range inside {
			inside[i] = lowered(e)
		}
	}
	return v
}

// strayed returns the bytes of an answer as OddBytes alters them.
func strayed(b []byte) []byte {
	return append(append([]byte("\uFEFF"), b...), "\n<!-- served -->\n"...)
}

// brokenJSON returns the bytes of an answer as a template on a BMC writes them: commas behind the
// last property, a word of another language, and an escape that JSON does not have.
func brokenJSON(b []byte) []byte {
	b = bytes.ReplaceAll(b, []byte(`null`), []byte(`None`))
	b = bytes.ReplaceAll(b, []byte(`"}`), []byte(`",}`))
	return bytes.ReplaceAll(b, []byte(`#`), []byte(`\#`))
}

// hidden returns the response to a request that the quirks answer in place of the service, or nil.
// The lock is held.
func (s *Service) hidden(r *http.Request, path string) (*result, *fault) {
	q := &s.quirks
	if q.isOdd(OddManagers) && strings.HasSuffix(path, "/Managers/"+auxiliary) {
		return ok(map[string]any{
			"@odata.id": path, "Id": auxiliary, "ManagerType": "AuxiliaryController", "FirmwareVersion": "wrong",
		}), nil
	}
	if r.Method != http.MethodGet {
		return nil, nil
	}
	for _, part := range q.Forbidden {
		if strings.HasSuffix(path, "/"+part) {
			return nil, refuse(http.StatusForbidden, "OemLicenseNotPassed", "A license is needed.")
		}
	}
	if q.LateSystem > 0 && strings.Contains(path, "/Systems/") {
		q.LateSystem--
		return nil, notFound(path)
	}
	return nil, nil
}
