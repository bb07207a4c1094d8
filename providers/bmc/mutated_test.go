package bmc_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc"
	"github.com/holdfast-metal/holdfast/providers/bmc/redfishtest"
)

// richTree is the plain tree with what machines have besides: power supplies, sensors, entries of
// the log, cards, adapters and a baseboard.
func richTree() map[string]string {
	all := plainTree()
	replace("Systems/1/LogServices/SEL", `{"Id"`, `{"Name": "SEL", "LogEntryType": "SEL", "ServiceEnabled": true,
		"Actions": {"#LogService.ClearLog": {"target": "/redfish/v1/Systems/1/LogServices/SEL/Actions/LogService.ClearLog"}},
		"Id"`)(all)
	replace("Systems/1", `"PCIeDevices": []`, `"PCIeDevices": [{"@odata.id": "/redfish/v1/Systems/1/PCIeDevices/7"}],
		"BootProgress": {"LastState": "OSRunning"}, "LastResetTime": "2026-01-01T00:00:00Z", "IndicatorLED": "Off",
		"LocationIndicatorActive": false, "SKU": "SK1", "UUID": "38947555-7742-3448-3784-823347823834"`)(all)
	replace("Chassis/C", `{`, `{"Power": {"@odata.id": "/redfish/v1/Chassis/C/Power"},
		"Thermal": {"@odata.id": "/redfish/v1/Chassis/C/Thermal"},
		"NetworkAdapters": {"@odata.id": "/redfish/v1/Chassis/C/NA"}, `)(all)
	set("Systems/1/LogServices/SEL/Entries", `{"Members": [{"@odata.id": "/redfish/v1/Systems/1/LogServices/SEL/Entries/1",
			"Id": "1", "Created": "2026-01-01T00:00:00Z", "Severity": "OK", "Message": "cleared", "SensorType": "x"}]}`,
		"Systems/1/PCIeDevices/7", `{"Id": "7", "Model": "N", "Manufacturer": "Contoso", "SerialNumber": "P7",
			"FirmwareVersion": "1", "Status": {"State": "Enabled", "Health": "OK"}}`,
		"Chassis/C/Power", `{"PowerSupplies": [{"MemberId": "0", "Name": "PSU 0", "LineInputStatus": "Normal",
			"Status": {"State": "Enabled", "Health": "OK"}}]}`,
		"Chassis/C/Thermal", `{"Temperatures": [{"MemberId": "0", "Name": "CPU1", "ReadingCelsius": 40,
			"UpperThresholdCritical": 90, "Status": {"State": "Enabled", "Health": "OK"}}],
			"Fans": [{"MemberId": "0", "Name": "Fan 1", "Reading": 8000, "Status": {"Health": "OK"}}]}`,
		"Chassis/C/NA", `{"Members": [{"@odata.id": "/redfish/v1/Chassis/C/NA/1"}]}`,
		"Chassis/C/NA/1", `{"Id": "1", "NetworkPorts": {"@odata.id": "/redfish/v1/Chassis/C/NA/1/P"}}`,
		"Chassis/C/NA/1/P", `{"Members": [{"Id": "1", "LinkStatus": "Up", "CurrentLinkSpeedMbps": 25000,
			"AssociatedNetworkAddresses": ["52:54:00:AA:00:02"]}]}`)(all)
	return all
}

// mutation replaces one property of one resource.
type mutation struct {
	at   string // path of the resource
	name string // path of the property in it, such as Boot.BootSourceOverrideMode
	to   string // how
	body string // of the resource then
}

// replacements returns the values that a property is replaced by, by name.
func replacements() map[string]any {
	return map[string]any{
		"null": nil, "number": 7, "text": "odd", "flag": true, "list": []any{}, "nested list": []any{[]any{7}},
		"object": map[string]any{}, "link": map[string]any{"@odata.id": "/redfish/v1/nowhere"},
		"foreign link": map[string]any{"@odata.id": "https://elsewhere.example/x"},
		"negative":     -1, "huge": json.Number("1e400"),
	}
}

// mutations returns every property of a tree with every replacement, and removed.
func mutations(t *testing.T, tree map[string]string) (all []mutation) {
	t.Helper()
	kinds := replacements()
	for _, at := range slices.Sorted(maps.Keys(tree)) {
		var body map[string]any
		if err := json.Unmarshal([]byte(tree[at]), &body); err != nil {
			t.Fatalf("%s: %v", at, err)
		}
		add := func(name, to string) {
			b, err := json.Marshal(body)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, mutation{at, name, to, string(b)})
		}
		var visit func(prefix string, v any)
		visit = func(prefix string, v any) {
			switch inside := v.(type) {
			case map[string]any:
				for _, name := range slices.Sorted(maps.Keys(inside)) {
					was := inside[name]
					for _, kind := range slices.Sorted(maps.Keys(kinds)) {
						inside[name] = kinds[kind]
						add(prefix+name, kind)
					}
					delete(inside, name)
					add(prefix+name, "removed")
					inside[name] = was
					visit(prefix+name+".", was)
				}
			case []any:
				for i, e := range inside {
					visit(fmt.Sprint(prefix, i, "."), e)
				}
			}
		}
		visit("", body)
	}
	return all
}

// needs returns the properties that an operation cannot do without, by the beginnings of their
// names.
func needsOf(operation string) []string {
	system := []string{"Systems Members"}
	switch operation {
	case "press":
		return append(system, "Systems/1 Actions")
	case "boot device":
		return append(system, "Systems/1 Boot")
	case "set boot device":
		return append(system, "Systems/1 Boot")
	case "media":
		return append(system, "Systems/1 VirtualMedia", "Systems/1/VirtualMedia Members", "Systems/1/VirtualMedia/1 ")
	case "insert":
		return append(system, "Systems/1 VirtualMedia", "Systems/1/VirtualMedia Members", "Systems/1/VirtualMedia/1 ")
	case "events", "clear":
		return append(system, "Systems/1 LogServices", "Systems/1/LogServices Members", "Systems/1/LogServices/SEL ",
			"Systems/1/LogServices/SEL/Entries Members")
	case "identify":
		return append(system, "Systems/1 LocationIndicatorActive", "Systems/1 IndicatorLED")
	}
	return system
}

// TestMutatedTrees replaces each property of a tree in turn. No operation fails that does not need
// it, none makes a request that no answer named, and no text of a decoder reaches a person.
func TestMutatedTrees(t *testing.T) {
	t.Parallel()
	tree := richTree()
	all := mutations(t, tree)
	every := 1
	if testing.Short() {
		every = 7 // without a common divisor with the number of replacements
	}
	const workers = 4
	for w := range workers {
		t.Run(fmt.Sprint(w), func(t *testing.T) {
			t.Parallel()
			for i := w * every; i < len(all); i += workers * every {
				mutated(t, tree, all[i])
			}
		})
	}
}

// mutated performs all operations on a BMC with one mutation.
func mutated(t *testing.T, tree map[string]string, mu mutation) {
	t.Helper()
	bodies := maps.Clone(tree)
	bodies[mu.at] = mu.body
	service := redfishtest.NewTree(bodies)
	h := httptest.NewServer(service)
	defer h.Close()
	l := &lab{t: t, acct: &accounts{is: bmc.Account{User: "admin", Password: "secret"}}, mem: bmc.NewInMemory(),
		ctx: t.Context()}
	p := l.provider(func(c *bmc.Config) { c.Protocol, c.Settle = bmc.Redfish, 1 })
	defer func() { _ = p.Close(l.ctx) }()
	m := machine("m-1", h.URL)
	name := strings.TrimPrefix(mu.at, "/redfish/v1/") + " " + mu.name
	check := func(operation string, texts []string, err error) {
		t.Helper()
		if err != nil {
			texts = append(texts, err.Error())
		}
		for _, s := range texts {
			for _, bad := range []string{"json:", "Go struct", "unmarshal", "strconv", "invalid character", "runtime error",
				"<nil>", "%!", "map["} {
				if strings.Contains(s, bad) {
					t.Errorf("%s is %s: %s: text of Go: %s", name, mu.to, operation, s)
				}
			}
		}
		needed := slices.ContainsFunc(needsOf(operation), func(n string) bool { return strings.HasPrefix(name, n) })
		readBack := err != nil && strings.Contains(err.Error(), "reads back as") // the tree keeps no change
		if err != nil && !needed && !readBack {
			t.Errorf("%s is %s: %s: %v", name, mu.to, operation, err)
		}
	}
	_, err := p.PowerState(l.ctx, m)
	check("power", nil, err)
	check("press", nil, p.SetPower(l.ctx, op("off"), m, providers.ActionHardOff))
	d, err := p.BootDevice(l.ctx, m)
	check("boot device", []string{d.Mode}, err)
	check("set boot device", nil, p.SetBootDevice(l.ctx, op("b"), m, providers.BootDevice{Mode: "PXE", UEFI: true}))
	_, err = p.Media(l.ctx, m)
	check("media", nil, err)
	check("insert", nil, p.InsertMedia(l.ctx, op("m"), m, "http://192.0.2.1/x.iso"))
	v, err := p.Inventory(l.ctx, m)
	if v == nil {
		v = new(providers.Inventory)
	}
	check("inventory", append(v.Missing, v.Manufacturer, v.Model, v.Serial, v.BMC, v.BIOS), err)
	health, err := p.Health(l.ctx, m)
	texts := slices.Clone(health.Unread)
	for _, problem := range health.Problems {
		texts = append(texts, problem.Text)
	}
	check("health", texts, err)
	threshold := strings.HasSuffix(mu.name, "UpperThresholdCritical") && mu.to == "number" // below the reading
	if !health.OK() && !threshold {
		t.Errorf("%s is %s: false alarm: %+v", name, mu.to, health.Problems)
	}
	events, err := p.Events(l.ctx, m, "")
	texts = nil
	for _, e := range events {
		texts = append(texts, e.ID, e.Message, e.Severity)
	}
	check("events", texts, err)
	check("clear", nil, p.ClearEvents(l.ctx, op("c"), m, ""))
	check("identify", nil, p.Identify(l.ctx, op("i"), m, true))
	f, err := p.Inspect(l.ctx, m)
	if err == nil && !f.BMCReachable {
		err = errors.New(f.BMCMessage)
	}
	check("inspect", []string{f.ReachableReason, f.BMCReason}, err)
	for _, r := range service.Requests() {
		at := strings.TrimSuffix(r.Path, "/Actions/ComputerSystem.Reset") // Redfish 1.0 may omit the target
		if r.Unnamed && (r.Method != http.MethodPost || at == r.Path) {
			t.Errorf("%s is %s: %s %s: no answer named this path", name, mu.to, r.Method, r.Path)
		}
	}
}
