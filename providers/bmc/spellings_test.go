package bmc_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc"
	"github.com/holdfast-metal/holdfast/providers/bmc/redfishtest"
)

// respelled returns a tree with the words of the schema in another spelling.
func respelled(t *testing.T, tree map[string]string, spell func(string) string) map[string]string {
	t.Helper()
	words := map[string]bool{
		"PowerState": true, "State": true, "Health": true, "ProcessorType": true, "ManagerType": true,
		"LinkStatus":                true,
		"BootSourceOverrideEnabled": true, "BootSourceOverrideTarget": true, "BootSourceOverrideMode": true,
		"ResetType@Redfish.AllowableValues": true, "BootSourceOverrideTarget@Redfish.AllowableValues": true,
		"BootSourceOverrideMode@Redfish.AllowableValues": true, "LastState": true, "IndicatorLED": true,
		"LineInputStatus": true, "MediaTypes": true, "Severity": true, "LogEntryType": true,
	}
	var visit func(name string, v any) any
	visit = func(name string, v any) any {
		switch is := v.(type) {
		case map[string]any:
			for k := range is {
				is[k] = visit(k, is[k])
			}
		case []any:
			for i := range is {
				is[i] = visit(name, is[i])
			}
		case string:
			if words[name] {
				return spell(is)
			}
		}
		return v
	}
	all := map[string]string{}
	for at, body := range tree {
		var v any
		if err := json.Unmarshal([]byte(body), &v); err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(visit("", v))
		if err != nil {
			t.Fatal(err)
		}
		all[at] = string(b)
	}
	return all
}

// TestSpellingsOfWords checks that the words of the schema mean the same in another spelling, and
// that a value is sent in the spelling of the service.
func TestSpellingsOfWords(t *testing.T) {
	t.Parallel()
	split := func(s string) string { // OSRunning: os running
		var b strings.Builder
		for i, r := range s {
			if i > 0 && r >= 'A' && r <= 'Z' && s[i-1] >= 'a' && s[i-1] <= 'z' {
				b.WriteByte(' ')
			}
			b.WriteRune(r)
		}
		return b.String()
	}
	plain := richTree()
	both(
		replace("Systems/1", `"BootSourceOverrideMode"`,
			`"BootSourceOverrideTarget@Redfish.AllowableValues": ["Pxe", "Hdd", "Cd"],
			"BootSourceOverrideMode@Redfish.AllowableValues": ["Legacy", "UEFI"], "BootSourceOverrideMode"`),
		replace("Systems/1", `"LocationIndicatorActive": false, `, ``),
		replace("Systems/1/Processors", `]`,
			`, {"Id": "G", "Socket": "G", "ProcessorType": "GPU", "Status": {"Health": "OK"}},
			{"Id": "F", "ProcessorType": "FPGA"}]`),
		replace("Chassis/C/Power", `"Normal"`, `"LossOfInput"`),
		replace("Systems/1/Storage/1/Drives/0", `"OK"`, `"Critical"`),
		replace("Systems/1/LogServices/SEL/Entries", `"OK"`, `"Critical"`),
		replace("Systems/1/LogServices/SEL/Entries", `2026-01-01T00:00:00Z`, time.Now().UTC().Format(time.RFC3339)),
	)(plain)
	type reading struct {
		Power    providers.PowerState
		Boot     providers.BootDevice
		Light    providers.LightState
		Facts    [2]string
		Parts    string
		States   []providers.PartState
		Problems []string
		Media    string
	}
	want := reading{
		Power: providers.PowerOn, Boot: providers.BootDevice{Mode: "PXE", UEFI: true}, Light: providers.LightOff,
		Facts: [2]string{"true", "OSRunning"},
		Parts: "Contoso M S1 | cpu CPU 1 EPYC 8, gpu G | A1 1024 | 0 1000 | " +
			"1 52:54:00:aa:00:01, 1/1 52:54:00:aa:00:02 | pcie 7 Contoso N |  |",
		States:   []providers.PartState{"ok", "ok", "ok", "failed", "up", "up"},
		Problems: []string{"disk 0 failed", "PSU 0 lost input", "the event log says: cleared"},
	}
	for name, spell := range map[string]func(string) string{
		"as in the schema": func(s string) string { return s },
		"lower case":       strings.ToLower,
		"upper case":       strings.ToUpper,
		"blanks":           split,
		"underscores":      func(s string) string { return strings.ToUpper(strings.ReplaceAll(split(s), " ", "_")) },
		"padded":           func(s string) string { return " " + s + " " },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			service := redfishtest.NewTree(respelled(t, maps.Clone(plain), spell))
			h := httptest.NewServer(service)
			defer h.Close()
			l := &lab{t: t, acct: &accounts{is: bmc.Account{User: "admin", Password: "secret"}}, mem: bmc.NewInMemory(),
				ctx: t.Context()}
			p, m, ctx := l.provider(redfishOnly), machine("m-1", h.URL), t.Context()
			var got reading
			var err error
			if got.Power, err = p.PowerState(ctx, m); err != nil {
				t.Fatal(err)
			}
			if got.Boot, err = p.BootDevice(ctx, m); err != nil {
				t.Fatal(err)
			}
			if got.Light, err = p.Light(ctx, m); err != nil {
				t.Fatal(err)
			}
			f, err := p.Inspect(ctx, m)
			if err != nil {
				t.Fatal(err)
			}
			got.Facts = [2]string{map[bool]string{true: "true"}[f.Reachable], f.ReachableReason}
			v, err := p.Inventory(ctx, m)
			if err != nil {
				t.Fatal(err)
			}
			got.Parts = summary(v)
			for _, c := range v.CPUs {
				got.States = append(got.States, c.State)
			}
			for _, g := range v.GPUs {
				got.States = append(got.States, g.State)
			}
			got.States = append(got.States, v.Memory[0].State, v.Disks[0].State)
			for _, n := range v.NICs {
				got.States = append(got.States, n.Link)
			}
			health, err := p.Health(ctx, m)
			if err != nil {
				t.Fatal(err)
			}
			for _, problem := range health.Problems {
				got.Problems = append(got.Problems, problem.Text)
			}
			if got.Media, err = p.Media(ctx, m); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got, cmp.Transformer("columns", func(r reading) []any {
				return []any{r.Power, r.Boot, r.Light, r.Facts, columns(r.Parts), r.States, r.Problems, r.Media}
			})); diff != "" {
				t.Errorf("readings (-want +got):\n%s", diff)
			}
			if err := p.SetPower(ctx, op("off"), m, providers.ActionSoftOff); err != nil {
				t.Errorf("press: %v", err)
			}
			// The tree keeps no change, so this fails after it was sent.
			_ = p.SetBootDevice(ctx, op("b"), m, providers.BootDevice{Mode: "DISK", UEFI: true})
			sent := map[string]string{}
			for _, r := range service.Requests() {
				switch r.Method {
				case http.MethodPost, http.MethodPatch:
					sent[r.Method] += r.Body
				}
			}
			for method, words := range map[string][]string{"POST": {"GracefulShutdown"}, "PATCH": {"Hdd", "UEFI"}} {
				for _, w := range words {
					if w = strings.TrimSpace(spell(w)); !strings.Contains(sent[method], `"`+w+`"`) {
						t.Errorf("%s: got %s, want the word %q", method, sent[method], w)
					}
				}
			}
		})
	}
}

// TestUnknownStates checks that a state that a service does not show is neither healthy nor failed,
// and that an impossible size is none.
func TestUnknownStates(t *testing.T) {
	t.Parallel()
	for status, want := range map[string]providers.PartState{
		`{"Health": "OK"}`: providers.PartOK, `{"Health": "Warning"}`: providers.PartFailed, `"OK"`: providers.PartOK,
		`{"Health": "N/A"}`: "", `{"Health": "Enabled"}`: "", `{"Health": null}`: "", `null`: "", `{}`: "",
		`{"State": "Enabled", "Health": ""}`: "", `{"Health": 3}`: "", `"Unknown"`: "",
	} {
		_, p, m := growTree(t, both(
			replace("Systems/1/Memory", `{"Health": "OK"}`, status),
			replace("Systems/1/Processors/1", `{"Health": "OK"}`, status),
			replace("Systems/1/Storage/1/Drives/0", `{"Health": "OK"}`, status)))
		v, err := p.Inventory(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		got := [3]providers.PartState{v.Memory[0].State, v.CPUs[0].State, v.Disks[0].State}
		if got != [3]providers.PartState{want, want, want} {
			t.Errorf("status %s: got %q, want %q", status, got, want)
		}
	}
	for link, want := range map[string]providers.PartState{
		`"LinkUp"`: providers.PartUp, `"link up"`: providers.PartUp, `"NoLink"`: providers.PartDown,
		`"Down"`: providers.PartDown, `null`: "", `"Unknown"`: "", `"Starting"`: "", `""`: "",
	} {
		_, p, m := growTree(t, replace("Systems/1/EthernetInterfaces/1", `"LinkUp"`, link))
		v, err := p.Inventory(t.Context(), m)
		if err != nil || len(v.NICs) != 1 || v.NICs[0].Link != want {
			t.Errorf("link %s: got %+v, %v; want %q", link, v, err, want)
		}
	}
	_, p, m := growTree(t, replace("Systems/1/Memory", `1024`, `68719476736`)) // bytes, not MiB
	v, err := p.Inventory(t.Context(), m)
	if err != nil || v.MemoryBytes != 0 || !strings.Contains(strings.Join(v.Missing, " "), "CapacityMiB") {
		t.Errorf("size in bytes: got %+v, %v; want none, and a line that names it", v, err)
	}
}

// TestSpellingsOfEntries checks entries of logs in the forms that services have, and a log whose
// action is a link.
func TestSpellingsOfEntries(t *testing.T) {
	t.Parallel()
	const log = "Systems/1/LogServices/SEL"
	now := time.Now().UTC().Truncate(time.Second)
	for name, when := range map[string]string{
		"a zone":         `"Created": "` + now.In(time.FixedZone("", 7200)).Format(time.RFC3339) + `"`,
		"a blank":        `"Created": "` + now.Format("2006-01-02 15:04:05") + `"`,
		"blanks, zone":   `"Created": "` + now.Format("2006-01-02 15:04:05 -0700") + `"`,
		"the word UTC":   `"Created": "` + now.Format("2006-01-02 15:04:05 UTC") + `"`,
		"slashes":        `"Created": "` + now.Format("2006/01/02 15:04:05") + `"`,
		"month first":    `"Created": "` + now.Format("01/02/2006 15:04:05") + `"`,
		"as ctime":       `"Created": "` + now.Format(time.ANSIC) + `"`,
		"seconds":        `"Created": ` + jsonNumber(now.Unix()),
		"milliseconds":   `"Created": "` + jsonNumber(now.UnixMilli()) + `"`,
		"another name":   `"Created": null, "EventTimestamp": "` + now.Format(time.RFC3339) + `"`,
		"a placeholder":  `"Created": "N/A", "EventTimestamp": "` + now.Format(time.RFC3339) + `"`,
		"as text padded": `"Created": " ` + now.Format(time.RFC3339) + ` "`,
	} {
		tree, p, m := growTree(t, both(
			replace(log, `"Id"`,
				`"Actions": {"#LogService.ClearLog": {"target": {"@odata.id": "/redfish/v1/`+log+`/Clear"}}}, "Id"`),
			set(log+"/Entries",
				`{"Members": [{"Id": "1", "MessageSeverity": "critical", "Message": "it burns", `+when+`}]}`)))
		all, err := p.Events(t.Context(), m, "")
		if err != nil || len(all) != 1 || !all[0].At.Equal(now) || !strings.EqualFold(all[0].Severity, "critical") {
			t.Errorf("%s: got %+v, %v; want one critical event of %v", name, all, err, now)
		}
		h, err := p.Health(t.Context(), m)
		if err != nil || len(h.Problems) != 1 {
			t.Errorf("%s: health: got %+v, %v; want the event", name, h, err)
		}
		if err := p.ClearEvents(t.Context(), op("clear"), m, ""); err != nil {
			t.Errorf("%s: clear: %v", name, err)
		}
		cleared := false
		for _, r := range tree.Requests() {
			cleared = cleared || r.Method == http.MethodPost && strings.HasSuffix(r.Path, "/Clear")
		}
		if !cleared {
			t.Errorf("%s: the log was not cleared", name)
		}
	}
}

func jsonNumber(n int64) string { return strconv.FormatInt(n, 10) }

// TestEmptySlots checks that placeholders, and an image that is no longer connected, are no image.
func TestEmptySlots(t *testing.T) {
	t.Parallel()
	for slot, want := range map[string]string{
		`"Inserted": true, "Image": "http://192.0.2.1/x.iso"`:                         "http://192.0.2.1/x.iso",
		`"Image": "http://192.0.2.1/x.iso"`:                                           "http://192.0.2.1/x.iso",
		`"ConnectedVia": "URI", "Image": "http://192.0.2.1/x.iso"`:                    "http://192.0.2.1/x.iso",
		`"ConnectedVia": "notconnected", "Image": "http://192.0.2.1/x.iso"`:           "",
		`"Inserted": null, "ConnectedVia": "NotConnected", "Image": "http://x/x.iso"`: "",
		`"Inserted": "false", "Image": "http://192.0.2.1/x.iso"`:                      "",
		`"Image": "N/A"`: "", `"Image": "None"`: "", `"Inserted": true, "Image": null`: "", `"Image": "-"`: "",
	} {
		_, p, m := growTree(t, replace("Systems/1/VirtualMedia/1", `"Inserted": false`, slot))
		if got, err := p.Media(t.Context(), m); err != nil || got != want {
			t.Errorf("slot %s: got %q, %v; want %q", slot, got, err, want)
		}
	}
}

// TestNoBootOverride checks that a BMC without an override is sent none, and the error says so.
func TestNoBootOverride(t *testing.T) {
	t.Parallel()
	for _, boot := range []string{`{}`, `null`, `{"BootOrder": ["Boot0001"]}`, `{"BootSourceOverrideTarget": null}`,
		`{"BootSourceOverrideEnabled": "N/A", "BootSourceOverrideTarget": "N/A"}`} {
		tree, p, m := growTree(t, replace("Systems/1", `{"BootSourceOverrideEnabled": "Once", `+
			`"BootSourceOverrideTarget": "Pxe", "BootSourceOverrideMode": "UEFI"}`, boot))
		err := p.SetBootDevice(t.Context(), op("boot"), m, providers.BootDevice{Mode: "PXE", UEFI: true})
		if providers.ClassOf(err) != providers.Unsupported || !strings.Contains(err.Error(), "has no override") {
			t.Errorf("boot %s: got %v, want that it is unsupported", boot, err)
		}
		for _, r := range tree.Requests() {
			if r.Method == http.MethodPatch {
				t.Errorf("boot %s: sent %s", boot, r.Body)
			}
		}
	}
}
