package redfish

import (
	"net/http"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc/internal/access"
)

// Only a service's own word makes a refusal permanent, and only a login can be refused for its
// password.
func TestClassOfReply(t *testing.T) {
	const get, post, patch = http.MethodGet, http.MethodPost, http.MethodPatch
	for _, tt := range []struct {
		method string
		status int
		code   string
		want   providers.Class
	}{
		{post, 400, "IDRAC.2.9.VRM0021", providers.Transient}, // attached by another client
		{post, 400, "IDRAC.2.8.RAC0720", providers.Transient}, // the BMC cannot reach the server
		{post, 404, "IDRAC.2.8.RAC0904", providers.Transient},
		{post, 400, "IDRAC.2.9.PSU501", providers.Transient},
		{post, 400, "IDRAC.2.9.HostLockdown", providers.Transient},
		{post, 403, "Base.1.8.HostLockdown", providers.Transient},
		{post, 503, "", providers.Transient},
		{post, 409, "Base.1.8.ResourceInUse", providers.Transient},
		{post, 400, "", providers.Transient},
		{post, 403, "", providers.Transient},
		{post, 404, "", providers.Transient},
		{post, 410, "", providers.Transient},
		{post, 422, "Base.1.8.GeneralError", providers.Transient},
		{post, 500, "SMC.1.0.BiosUpdateInProgress", providers.Transient},
		{post, 405, "iLO.2.14.ResourceNotReadyRetry", providers.Transient},
		{post, 400, "iLO.0.10.UnableToModifyDuringSystemPOST", providers.Transient},
		{post, 400, "Base.1.8.ActionNotSupported", providers.Unsupported},
		{post, 404, "Base.1.8.ActionUnknown", providers.Unsupported},
		{patch, 400, "Base.1.8.PropertyUnknown", providers.Unsupported},
		{patch, 409, "Base.1.8.PropertyNotWritable", providers.Unsupported},
		{post, 405, "", providers.Unsupported},
		{post, 501, "", providers.Unsupported},
		{post, 403, "SMC.1.0.OemLicenseNotPassed", providers.Unsupported},
		{post, 403, "IDRAC.2.8.LIC501", providers.Unsupported},
		{post, 403, "Base.1.8.InsufficientPrivilege", providers.Unsupported},
		{get, 403, "SMC.1.0.OemLicenseNotPassed", providers.Unsupported},
		{get, 403, "", providers.Transient},
		{get, 400, "", providers.Transient},
		{get, 404, "", providers.Unsupported},
		{get, 410, "", providers.Gone},
		{get, 401, "", providers.Auth},
	} {
		r := newReply(tt.method, "/redfish/v1/X", tt.status,
			[]byte(`{"error":{"code":"`+tt.code+`","@Message.ExtendedInfo":[{"MessageId":"`+tt.code+`"}]}}`))
		if got := providers.ClassOf(access.Classify("do it", r, tt.method != get)); got != tt.want {
			t.Errorf("%s answered %d %s: got class %s, want %s", tt.method, tt.status, tt.code, got, tt.want)
		}
	}
}

// The messages of an error are found in each form that services give it.
func TestFormsOfReply(t *testing.T) {
	for name, body := range map[string]string{
		"a list":            `{"error":{"code":"Base.1.8.GeneralError","@Message.ExtendedInfo":[{"MessageId":"Base.1.8.X","Message":"no"}]}}`,
		"one object":        `{"error":{"code":"Base.1.8.GeneralError","@Message.ExtendedInfo":{"MessageId":"Base.1.8.X","Message":"no"}}}`,
		"no list":           `{"error":{"code":"Base.1.8.X","message":"no"}}`,
		"another type":      `{"error":{"code":7,"@Message.ExtendedInfo":[{"MessageId":"Base.1.8.X","Message":["no"],"Severity":3}]}}`,
		"at the top":        `{"@Message.ExtendedInfo":[{"MessageId":"Base.1.8.X","Message":"no"}]}`,
		"about a property":  `{"PowerState@Message.ExtendedInfo":[{"MessageId":"Base.1.8.X","Message":"no"}]}`,
		"iLO 4":             `{"Messages":[{"MessageID":"Base.1.8.X","Message":"no"}],"Type":"ExtendedError.1.0.0"}`,
		"another case":      `{"Error":{"Code":"Base.1.8.X","Message":"no"}}`,
		"code and message":  `{"code":"Base.1.8.X","message":"no"}`,
		"a byte order mark": "\uFEFF" + `{"error":{"code":"Base.1.8.X","message":"no"}}`,
		"broken JSON":       `{"error":{"code":"Base.1.8.X","message":"no",},}`,
	} {
		r := newReply(http.MethodPost, "/redfish/v1/X", 400, []byte(body))
		if !r.has("Base.1.8.X") || r.Text != "no" {
			t.Errorf("%s: got codes %q, text %q", name, r.Codes, r.Text)
		}
	}
	for _, body := range []string{``, `<html>no</html>`, `[]`, `{}`, `null`, `{"error":null}`, `{"error":[[]]}`} {
		if r := newReply(http.MethodPost, "/redfish/v1/X", 400, []byte(body)); len(r.Codes) > 0 || r.Text != "" {
			t.Errorf("%s: got codes %q, text %q", body, r.Codes, r.Text)
		}
	}
	if r := newReply(http.MethodPost, "/redfish/v1/X", 400, []byte(`{"error":"no"}`)); r.Text != "no" {
		t.Errorf("a text: got %q", r.Text)
	}
}

// A reading follows redirects on its own service only.
func TestHere(t *testing.T) {
	c := New(Config{Base: "https://10.0.0.7"})
	for ref, want := range map[string]string{
		"/redfish/v1/Systems/":                 "/redfish/v1/Systems/",
		"Systems/":                             "/redfish/v1/Systems/",
		"https://10.0.0.7/redfish/v1/S?x=%20":  "/redfish/v1/S?x=%20",
		"https://10.0.0.8/redfish/v1/Systems/": "",
		"http://10.0.0.7/redfish/v1/Systems/":  "",
		"https://10.0.0.7:8443/redfish/v1/":    "",
		"https://10.0.0.7@evil/redfish/v1/":    "",
		"//evil/redfish/v1/":                   "",
		"%zz":                                  "",
	} {
		if got, ok := c.here("/redfish/v1/Systems", ref); got != want || ok != (want != "") {
			t.Errorf("%s: got %q, %v, want %q", ref, got, ok, want)
		}
	}
}

// A state of the boot progress shows that the host is booting only for a while after it has
// changed: some vendors report none after it.
func TestBootProgress(t *testing.T) {
	const late = "SystemHardwareInitializationComplete"
	for name, tt := range map[string]struct {
		states []string
		after  time.Duration // of the last reading, which repeats the last state
		want   bool
	}{
		"first reading of a late state":  {[]string{late}, 0, false},
		"late state that never changes":  {[]string{late, late}, time.Minute, false},
		"first reading of the self test": {[]string{"MemoryInitializationStarted"}, 0, true},
		"self test for too long":         {[]string{"MemoryInitializationStarted"}, time.Hour, false},
		"it goes on":                     {[]string{"None", "MemoryInitializationStarted", late}, time.Minute, true},
		"it does not go on":              {[]string{"None", "MemoryInitializationStarted", late}, bootShown, false},
		"after the operating system ran": {[]string{"OSRunning", "OSBootStarted"}, time.Minute, true},
	} {
		now, got := time.Now(), false
		var b booting
		for _, s := range tt.states {
			b, _ = b.next(s, now)
		}
		if _, got = b.next(b.progress, now.Add(tt.after)); got != tt.want {
			t.Errorf("%s: got booting %t, want %t", name, got, tt.want)
		}
	}
}

func TestPathOfSession(t *testing.T) {
	const at = "/redfish/v1/SessionService/Sessions"
	for name, tt := range map[string]struct{ location, body, want string }{
		"path":              {at + "/7", ``, at + "/7"},
		"URL":               {"https://10.0.0.7" + at + "/7", ``, at + "/7"},
		"id alone":          {"7", ``, at + "/7"},
		"relative path":     {"Sessions/7", ``, at + "/7"},
		"body alone":        {"", `{"@odata.id":"` + at + `/7"}`, at + "/7"},
		"id in the body":    {"", `{"Id":"7"}`, at + "/7"},
		"number in body":    {"", `{"Id":7,"@odata.id":null}`, at + "/7"},
		"neither":           {"", `{"Name":"x"}`, ""},
		"no JSON":           {"", `<html>`, ""},
		"not a URL, a body": {"%zz", `{"Id":"7"}`, at + "/7"},
	} {
		a := &answer{header: http.Header{"Location": {tt.location}}, body: []byte(tt.body)}
		if got := sessionPath(at, a); got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}

// Supermicro's X10 has no boot mode, and a target for each mode.
func TestTargetsOfBothModes(t *testing.T) {
	both := bootOverride{Enabled: "Disabled", Target: "None",
		Targets: []string{"None", "Pxe", "Hdd", "UefiHdd", "UsbCd", "UefiUsbCd"}}
	for _, d := range []providers.BootDevice{
		{Mode: "DISK", UEFI: true}, {Mode: "DISK"}, {Mode: "VIRTUAL_MEDIA", UEFI: true}, {Mode: "VIRTUAL_MEDIA"},
		{Mode: "PXE", UEFI: true},
	} {
		change, err := both.change(d, access.Quirks{})
		if err != nil {
			t.Errorf("%+v: %v", d, err)
			continue
		}
		b := both
		b.Target, b.Enabled = change["BootSourceOverrideTarget"], change["BootSourceOverrideEnabled"]
		if got := b.device(); got != d {
			t.Errorf("%+v: got target %s, which reads back as %+v", d, b.Target, got)
		}
	}
	if _, err := new(bootOverride).change(providers.BootDevice{Mode: "PXE", UEFI: true}, access.Quirks{}); err == nil ||
		providers.ClassOf(err) != providers.Unsupported {
		t.Errorf("BMC without an override: got %v, want class unsupported", err)
	}
}
