package bmc_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc"
	"github.com/holdfast-metal/holdfast/providers/bmc/redfishtest"
)

// plainTree is a machine with two managers, a chassis and a part of each kind.
func plainTree() map[string]string {
	list := func(paths ...string) string {
		var all []string
		for _, p := range paths {
			all = append(all, fmt.Sprintf(`{"@odata.id": %q}`, p))
		}
		return `{"Members": [` + strings.Join(all, ", ") + `]}`
	}
	const v1 = "/redfish/v1/"
	return map[string]string{
		v1 + "Systems":  list(v1 + "Systems/1"),
		v1 + "Managers": list(v1+"Managers/AUX", v1+"Managers/B"),
		v1 + "Chassis":  list(v1 + "Chassis/C"),
		v1 + "Systems/1": `{
			"@odata.id": "/redfish/v1/Systems/1", "Manufacturer": "Contoso", "Model": "M", "SerialNumber": "S1",
			"PowerState": "On", "Status": {"State": "Enabled", "Health": "OK"}, "BiosVersion": "1",
			"Boot": {"BootSourceOverrideEnabled": "Once", "BootSourceOverrideTarget": "Pxe", "BootSourceOverrideMode": "UEFI"},
			"Actions": {"#ComputerSystem.Reset": {"target": "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset",
				"ResetType@Redfish.AllowableValues": ["On", "ForceOff", "GracefulShutdown"]}},
			"Processors": {"@odata.id": "/redfish/v1/Systems/1/Processors"},
			"Memory": {"@odata.id": "/redfish/v1/Systems/1/Memory"},
			"Storage": {"@odata.id": "/redfish/v1/Systems/1/Storage"},
			"EthernetInterfaces": {"@odata.id": "/redfish/v1/Systems/1/EthernetInterfaces"},
			"PCIeDevices": [],
			"LogServices": {"@odata.id": "/redfish/v1/Systems/1/LogServices"},
			"VirtualMedia": {"@odata.id": "/redfish/v1/Systems/1/VirtualMedia"},
			"Links": {"Chassis": [{"@odata.id": "/redfish/v1/Chassis/C"}]}}`,
		v1 + "Managers/AUX": `{"ManagerType": "AuxiliaryController", "FirmwareVersion": "wrong"}`,
		v1 + "Managers/B":   `{"ManagerType": "BMC", "FirmwareVersion": "2.1"}`,
		v1 + "Chassis/C": `{"Manufacturer": "Chassis Inc.", "SerialNumber": "C1",
			"Links": {"ComputerSystems": [{"@odata.id": "/redfish/v1/Systems/1"}]}}`,
		v1 + "Systems/1/Processors": list(v1 + "Systems/1/Processors/1"),
		v1 + "Systems/1/Processors/1": `{"Id": "1", "Socket": "CPU 1", "ProcessorType": "CPU", "Model": "EPYC   ",
			"TotalCores": 8, "TotalThreads": 16, "Status": {"Health": "OK"}}`,
		v1 + "Systems/1/Memory": `{"Members": [{"@odata.id": "/redfish/v1/Systems/1/Memory/1", "Id": "1",
			"DeviceLocator": "A1", "CapacityMiB": 1024, "Status": {"Health": "OK"}}]}`,
		v1 + "Systems/1/Storage":   list(v1 + "Systems/1/Storage/1"),
		v1 + "Systems/1/Storage/1": `{"Id": "1", "Drives": [{"@odata.id": "/redfish/v1/Systems/1/Storage/1/Drives/0"}]}`,
		v1 + "Systems/1/Storage/1/Drives/0": `{"Id": "0", "Model": "D", "CapacityBytes": 1000,
			"Status": {"Health": "OK"}}`,
		v1 + "Systems/1/EthernetInterfaces": list(v1 + "Systems/1/EthernetInterfaces/1"),
		v1 + "Systems/1/EthernetInterfaces/1": `{"Id": "1", "MACAddress": "52-54-00-AA-00-01", "SpeedMbps": 1000,
			"LinkStatus": "LinkUp"}`,
		v1 + "Systems/1/LogServices":             list(v1 + "Systems/1/LogServices/SEL"),
		v1 + "Systems/1/LogServices/SEL":         `{"Id": "SEL", "Entries": {"@odata.id": "/redfish/v1/Systems/1/LogServices/SEL/Entries"}}`,
		v1 + "Systems/1/LogServices/SEL/Entries": `{"Members": []}`,
		v1 + "Systems/1/VirtualMedia":            list(v1 + "Systems/1/VirtualMedia/1"),
		v1 + "Systems/1/VirtualMedia/1": `{"MediaTypes": ["CD"], "Inserted": false, "Actions": {
			"#VirtualMedia.InsertMedia": {"target": "/redfish/v1/Systems/1/VirtualMedia/1/Actions/VirtualMedia.InsertMedia"},
			"#VirtualMedia.EjectMedia": {"target": "/redfish/v1/Systems/1/VirtualMedia/1/Actions/VirtualMedia.EjectMedia"}}}`,
	}
}

// growTree is a BMC with the plain tree, changed.
func growTree(t *testing.T, change func(map[string]string)) (*redfishtest.Tree, *bmc.Provider, providers.Machine) {
	t.Helper()
	all := plainTree()
	if change != nil {
		change(all)
	}
	tree := redfishtest.NewTree(all)
	h := httptest.NewServer(tree)
	t.Cleanup(h.Close)
	l := &lab{t: t, acct: &accounts{is: bmc.Account{User: "admin", Password: "secret"}}, mem: bmc.NewInMemory(),
		ctx: t.Context()}
	return tree, l.provider(redfishOnly), machine("m-1", h.URL)
}

// replace replaces text in one resource.
func replace(at, old, with string) func(map[string]string) {
	return func(all map[string]string) {
		if !strings.Contains(all["/redfish/v1/"+at], old) {
			panic(at + " has no " + old)
		}
		all["/redfish/v1/"+at] = strings.Replace(all["/redfish/v1/"+at], old, with, 1)
	}
}

// set adds or replaces resources.
func set(resources ...string) func(map[string]string) {
	return func(all map[string]string) {
		for i := 0; i < len(resources); i += 2 {
			all["/redfish/v1/"+resources[i]] = resources[i+1]
		}
	}
}

func both(changes ...func(map[string]string)) func(map[string]string) {
	return func(all map[string]string) {
		for _, c := range changes {
			c(all)
		}
	}
}

// TestOddProperties checks that a property of another type, or a link in another form, fails no
// operation that does not need it.
func TestOddProperties(t *testing.T) {
	t.Parallel()
	const end = `"Links": {"Chassis": [{"@odata.id": "/redfish/v1/Chassis/C"}]}}`
	for name, change := range map[string]func(map[string]string){
		"etag is a number":        replace("Systems/1", end, `"@odata.etag": 87422082150, `+end),
		"texts are numbers":       replace("Systems/1", end, `"SKU": 7, "UUID": 12, "HostName": {}, `+end),
		"boot progress is a text": replace("Systems/1", end, `"BootProgress": "OSRunning", `+end),
		"values in one text":      replace("Systems/1", `["On", "ForceOff", "GracefulShutdown"]`, `"On, ForceOff GracefulShutdown"`),
		"flag is a text":          replace("Systems/1", end, `"LocationIndicatorActive": "false", `+end),
		"settings are a list":     replace("Systems/1", end, `"@Redfish.Settings": {"SettingsObject": []}, `+end),
		"links are a text":        replace("Systems/1", end, `"Links": "none"}`),
		"links are null":          replace("Systems/1", end, `"Links": null}`),
		"one link is an object":   replace("Systems/1", `[{"@odata.id": "/redfish/v1/Chassis/C"}]`, `{"@odata.id": "/redfish/v1/Chassis/C"}`),
		"link is a list":          replace("Systems/1", `"Memory": {"@odata.id": "/redfish/v1/Systems/1/Memory"}`, `"Memory": [{"@odata.id": "/redfish/v1/Systems/1/Memory"}]`),
		"other case":              replace("Systems/1", `"PowerState"`, `"powerState"`),
		"status is a text":        replace("Systems/1", `{"State": "Enabled", "Health": "OK"}`, `"OK"`),
		"byte order mark":         replace("Systems/1", `{`, "\uFEFF{"),
		"control character":       replace("Systems/1", `"Contoso"`, "\"Contoso\x00\t\""),
		"collection is a list":    replace("Systems/1/Memory", `{"Members": [`, `{"Name": "\u0007", "Members": [null, `),
		"not a number":            replace("Systems/1", end, `"Reading": NaN, `+end),
		"media flag is a text":    replace("Systems/1/VirtualMedia/1", `false`, `"false"`),
		"media types in a text":   replace("Systems/1/VirtualMedia/1", `["CD"]`, `"CD,DVD"`),
		"target is a link":        replace("Systems/1", `"/redfish/v1/Systems/1/Actions/ComputerSystem.Reset"`, `{"@odata.id": "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset"}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tree, p, m := growTree(t, change)
			ctx := t.Context()
			power, err := p.PowerState(ctx, m)
			if err != nil || power != providers.PowerOn {
				t.Errorf("power: got %s, %v", power, err)
			}
			d, err := p.BootDevice(ctx, m)
			if want := (providers.BootDevice{Mode: "PXE", UEFI: true}); err != nil || d != want {
				t.Errorf("boot device: got %+v, %v; want %+v", d, err, want)
			}
			if err := p.SetPower(ctx, op("off"), m, providers.ActionHardOff); err != nil {
				t.Errorf("press: %v", err)
			}
			pressed := false
			for _, r := range tree.Requests() {
				pressed = pressed || r.Method == http.MethodPost && strings.HasSuffix(r.Path, "ComputerSystem.Reset")
			}
			if !pressed {
				t.Error("nothing was pressed")
			}
			v, err := p.Inventory(ctx, m)
			if err != nil || v.Serial != "S1" || v.MemoryBytes != 1<<30 || len(v.Disks) != 1 || v.BMC != "2.1" {
				t.Errorf("inventory: got %+v, %v", v, err)
			}
			if h, err := p.Health(ctx, m); err != nil || !h.OK() {
				t.Errorf("health: got %+v, %v", h, err)
			}
			if image, err := p.Media(ctx, m); err != nil || image != "" {
				t.Errorf("media: got %q, %v", image, err)
			}
		})
	}
}

// TestInventoryOf checks the parts that are read of odd trees.
func TestInventoryOf(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		change func(map[string]string)
		want   string // of summary
	}{
		{"plain", nil, "Contoso M S1 | cpu CPU 1 EPYC 8 | A1 1024 | 0 1000 | 1 52:54:00:aa:00:01 | |  | "},
		{"Dell shows its tag as SKU", both(
			replace("Systems/1", `"Contoso"`, `"Dell Inc."`), replace("Systems/1", `"S1"`, `" CN01 ", "SKU": "TAG0001 "`),
		), "Dell Inc. M TAG0001 (CN01) | cpu CPU 1 EPYC 8 | A1 1024 | 0 1000 | 1 52:54:00:aa:00:01 | |  | "},
		{"the chassis has the names", both(
			replace("Systems/1", `"Contoso"`, `null`), replace("Systems/1", `"S1"`, `"          "`),
		), "Chassis Inc. M C1 | cpu CPU 1 EPYC 8 | A1 1024 | 0 1000 | 1 52:54:00:aa:00:01 | |  | "},
		{"a placeholder, and no name in the chassis", both(
			replace("Systems/1", `"S1"`, `"To be filled by O.E.M."`), replace("Chassis/C", `"C1"`, `"Default string"`),
		), "Contoso M  | cpu CPU 1 EPYC 8 | A1 1024 | 0 1000 | 1 52:54:00:aa:00:01 | |  | " +
			"serial number: not shown by the BMC"},
		{"instruction sets as a list, life and capacity as texts", both(
			replace("Systems/1/Processors/1", `"CPU",`, `"CPU", "InstructionSet": ["x86-64"],`),
			replace("Systems/1/Storage/1/Drives/0", `1000`, `"1000", "PredictedMediaLifeLeftPercent": "N/A"`),
		), "Contoso M S1 | cpu CPU 1 EPYC 8 | A1 1024 | 0 1000 | 1 52:54:00:aa:00:01 | |  | "},
		{"a capacity that is none", replace("Systems/1/Storage/1/Drives/0", `1000`, `{}`),
			"Contoso M S1 | cpu CPU 1 EPYC 8 | A1 1024 | 0 0 | 1 52:54:00:aa:00:01 | |  | " +
				"disks: CapacityBytes of 0 cannot be read"},
		{"one drive is missing", replace("Systems/1/Storage/1", `[{`, `[{"@odata.id": "/redfish/v1/gone"}, {`),
			"Contoso M S1 | cpu CPU 1 EPYC 8 | A1 1024 | 0 1000 | 1 52:54:00:aa:00:01 | | disk | disks: GET /redfish/v1/gone: " +
				"answered 404 Not Found (Base.1.8.ResourceMissingAtURI)"},
		{"cards of the chassis, each once", both(
			replace("Chassis/C", `{`, `{"PCIeDevices": {"@odata.id": "/redfish/v1/Chassis/C/PCIeDevices"}, `),
			replace("Systems/1", `"PCIeDevices": []`, `"PCIeDevices": [{"@odata.id": "/redfish/v1/Systems/1/PCIeDevices/7"},
				{"@odata.id": "/redfish/v1/Systems/1/PCIeDevices/7/"}]`),
			set("Systems/1/PCIeDevices/7", `{"Id": "7", "Model": "N"}`, "Chassis/C/PCIeDevices", `{"Members": [
				{"@odata.id": "/redfish/v1/Chassis/C/PCIeDevices/7"}, {"@odata.id": "/redfish/v1/Chassis/C/PCIeDevices/8"}]}`,
				"Chassis/C/PCIeDevices/8", `{"Id": "8", "Manufacturer": "NVIDIA", "Model": "NVIDIA G"}`),
		), "Contoso M S1 | cpu CPU 1 EPYC 8 | A1 1024 | 0 1000 | 1 52:54:00:aa:00:01 | pcie 7 N, pcie 8 NVIDIA G |  | "},
		{"GPUs of a baseboard", set("Systems", `{"Members": [{"@odata.id": "/redfish/v1/Systems/HGX"},
				{"@odata.id": "/redfish/v1/Systems/1"}]}`,
			"Systems/HGX", `{"Id": "HGX", "SerialNumber": "1650", "Processors": {"@odata.id": "/redfish/v1/Systems/HGX/P"}}`,
			"Systems/HGX/P", `{"Members": [{"Id": "CPU_0", "ProcessorType": "CPU"},
				{"Id": "GPU_0", "ProcessorType": "GPU", "Model": "GB300", "SerialNumber": "1"},
				{"Id": "GPU_1", "ProcessorType": "GPU", "Model": "GB300", "SerialNumber": "1"}]}`),
			"Contoso M S1 | cpu CPU 1 EPYC 8, gpu GPU_0 GB300, gpu GPU_1 GB300 | A1 1024 | " +
				"0 1000 | 1 52:54:00:aa:00:01 | |  | "},
		{"ports of adapters, none to the BMC", both(
			set("Systems/1/EthernetInterfaces", `{"Members": [
				{"Id": "ToManager", "MACAddress": "7e:8a:e1:d5:a2:77"}, {"Id": "V", "EthernetInterfaceType": "Virtual",
				"MACAddress": "52:54:00:aa:00:01"}, {"Id": "W", "MACAddress": "20:00:00:25:b5:00:00:1f"},
				{"Id": "H", "MACAddress": "52:54:00:aa:00:09", "Links": {"HostInterface": {"@odata.id": "/x"}}}]}`,
				"Chassis/C/NA", `{"Members": [{"Id": "slot-3", "NetworkPorts": {"@odata.id": "/redfish/v1/p"},
				"NetworkDeviceFunctions": {"@odata.id": "/redfish/v1/f"}}, {"Id": "slot-5", "Model": "CX"}]}`,
				"p", `{"Members": [{"@odata.id": "/redfish/v1/p/1", "Id": "1", "LinkStatus": "Up", "CurrentLinkSpeedMbps": 25000}]}`,
				"f", `{"Members": [{"Id": "f1", "Ethernet": {"MACAddress": "52:54:00:AA:00:02"},
				"PhysicalPortAssignment": {"@odata.id": "/redfish/v1/p/1"}}]}`),
			replace("Chassis/C", `{`, `{"NetworkAdapters": {"@odata.id": "/redfish/v1/Chassis/C/NA"}, `),
		), "Contoso M S1 | cpu CPU 1 EPYC 8 | A1 1024 | 0 1000 | W , f1 52:54:00:aa:00:02, slot-5  | |  | "},
		{"a collection in pages", set("Systems/1/Memory", `{"Members": [{"Id": "1", "DeviceLocator": "A1", "CapacityMiB": 1}],
				"Members@odata.nextLink": "?$skip=1"}`,
			"Systems/1/Memory?$skip=1", `{"Members": [{"Id": "2", "DeviceLocator": "A2", "CapacityMiB": 2}]}`),
			"Contoso M S1 | cpu CPU 1 EPYC 8 | A1 1, A2 2 | 0 1000 | 1 52:54:00:aa:00:01 | |  | "},
		{"a page that is missing", set("Systems/1/Memory", `{"Members": [{"Id": "1", "DeviceLocator": "A1", "CapacityMiB": 1}],
				"Members@odata.count": 2}`),
			"Contoso M S1 | cpu CPU 1 EPYC 8 | A1 1 | 0 1000 | 1 52:54:00:aa:00:01 | | memory | memory: 1 more are not read"},
		{"not JSON", set("Systems/1/Memory", `<html>`),
			"Contoso M S1 | cpu CPU 1 EPYC 8 |  | 0 1000 | 1 52:54:00:aa:00:01 | | memory | " +
				"memory: read /redfish/v1/Systems/1/Memory: the answer is not a JSON object"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, p, m := growTree(t, tc.change)
			m.GetSpec().BmcEndpoint += "/redfish/v1/Systems/1"
			v, err := p.Inventory(t.Context(), m)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(columns(tc.want), columns(summary(v))); diff != "" {
				t.Errorf("inventory (-want +got):\n%s", diff)
			}
		})
	}
}

func columns(line string) []string {
	all := strings.Split(line, "|")
	for i := range all {
		all[i] = strings.TrimSpace(all[i])
	}
	return all
}

// summary returns an inventory as one line.
func summary(v *providers.Inventory) string {
	name := strings.Join([]string{v.Manufacturer, v.Model, v.Serial}, " ")
	if v.BoardSerial != "" {
		name += " (" + v.BoardSerial + ")"
	}
	var cpus, dimms, disks, nics, cards []string
	for _, c := range v.CPUs {
		cpus = append(cpus, fmt.Sprint("cpu ", c.Slot, " ", c.Model, " ", c.Cores))
	}
	for _, c := range v.GPUs {
		cpus = append(cpus, "gpu "+c.Slot+" "+c.Model)
	}
	for _, d := range v.Memory {
		dimms = append(dimms, fmt.Sprint(d.Slot, " ", d.Bytes>>20))
	}
	for _, d := range v.Disks {
		disks = append(disks, fmt.Sprint(d.Slot, " ", d.Bytes))
	}
	for _, n := range v.NICs {
		nics = append(nics, n.Name+" "+n.MAC)
	}
	for _, c := range v.PCIe {
		cards = append(cards, "pcie "+c.Slot+" "+c.Model)
	}
	var fields []string
	for _, list := range [][]string{{name}, cpus, dimms, disks, nics, cards, v.Unread, v.Missing} {
		fields = append(fields, strings.Join(list, ", "))
	}
	return strings.Join(fields, " | ")
}

// TestBusyPart checks that a part that is busy or does not answer fails the reading, which is tried
// again, instead of being reported as gone.
func TestBusyPart(t *testing.T) {
	t.Parallel()
	for name, a := range map[string]redfishtest.Answer{
		"busy": {Status: http.StatusServiceUnavailable}, "silent": {Silent: true},
		"too many requests": {Status: http.StatusTooManyRequests},
	} {
		for _, at := range []string{"Systems/1/Memory", "Systems/1/Processors/1", "Systems/1/Storage/1/Drives/0"} {
			t.Run(name+" "+at, func(t *testing.T) {
				t.Parallel()
				tree, p, m := growTree(t, nil)
				tree.Set("/redfish/v1/"+at, a)
				v, err := p.Inventory(t.Context(), m)
				if err == nil || providers.ClassOf(err) != providers.Transient && providers.ClassOf(err) != providers.Timeout {
					t.Errorf("got %+v, %v; want an error to be retried", v, err)
				}
			})
		}
	}
}

// TestHealthOf checks the problems and gaps of odd trees.
func TestHealthOf(t *testing.T) {
	t.Parallel()
	now := time.Now().UTC().Format(time.RFC3339)
	critical := `{"Members": [{"Id": "1", "Created": "` + now + `", "Severity": "Critical", "Message": "it burns"}]}`
	burns := []string{"the event log says: it burns"}
	at := func(services ...string) func(map[string]string) { // log services with a critical entry in the first
		return func(all map[string]string) {
			var members []string
			for i, s := range services {
				where, id, _ := strings.Cut(s, " ")
				id, kind, _ := strings.Cut(id, ":")
				below := "/redfish/v1/" + where + "/LogServices/" + id
				all[below] = fmt.Sprintf(`{"Id": %q, "LogEntryType": %q, "Entries": {"@odata.id": %q}}`, id, kind, below+"/Entries")
				all[below+"/Entries"] = critical
				if i > 0 {
					all[below+"/Entries"] = strings.Replace(critical, "it burns", "not this log", 1)
				}
				members = append(members, where+" "+fmt.Sprintf(`{"@odata.id": %q}`, below))
			}
			for _, where := range []string{"Systems/1", "Managers/B"} {
				var own []string
				for _, m := range members {
					if link, ours := strings.CutPrefix(m, where+" "); ours {
						own = append(own, link)
					}
				}
				all["/redfish/v1/"+where+"/LogServices"] = `{"Members": [` + strings.Join(own, ", ") + `]}`
			}
			all["/redfish/v1/Managers/B"] = `{"ManagerType": "BMC", "LogServices": {"@odata.id": "/redfish/v1/Managers/B/LogServices"}}`
		}
	}
	var pages []string
	for i := range 3 {
		next := fmt.Sprintf(`, "Members@odata.nextLink": "/redfish/v1/Systems/1/LogServices/SEL/Entries?$skip=%d"`, i+1)
		name, entry := fmt.Sprintf("Systems/1/LogServices/SEL/Entries?$skip=%d", i), `"OK"`
		if i == 0 {
			name = "Systems/1/LogServices/SEL/Entries"
		}
		if i == 2 {
			next, entry = "", `"Critical"`
		}
		pages = append(pages, name, fmt.Sprintf(
			`{"Members": [{"Id": "%d", "Created": %q, "Severity": %s, "Message": "it burns"}]%s}`, i, now, entry, next))
	}
	for _, tc := range []struct {
		name         string
		change       func(map[string]string)
		want, unread []string
	}{
		{"plain", nil, nil, nil},
		{"Dell: Sel of the manager", at("Managers/B Sel:SEL", "Managers/B FaultList:SEL",
			"Managers/B Lclog:OEM"), burns, nil},
		{"HPE: IML beside SL and Event", at("Systems/1 IML", "Systems/1 SL", "Systems/1 Event",
			"Managers/B IEL"), burns, nil},
		{"Lenovo: PlatformLog beside AuditLog", at("Systems/1 PlatformLog:Multiple", "Systems/1 AuditLog:Multiple",
			"Systems/1 MaintenanceLog:Multiple"), burns, nil},
		{"OpenBMC: EventLog beside HostLogger", at("Systems/1 EventLog", "Systems/1 HostLogger", "Systems/1 PostCodes",
			"Managers/B Journal"), burns, nil},
		{"AMI: SEL of the manager, and BIOS of type SEL", at("Managers/B SEL:SEL", "Systems/1 BIOS:SEL",
			"Managers/B AuditLog:Event", "Managers/B EventLog:Event"), burns, nil},
		{"it is unclear which log", at("Systems/1 Alpha", "Systems/1 Beta"), nil,
			[]string{"the event log: find the event log: it is unclear which log is the hardware's: the BMC has Alpha, Beta: " +
				"name one (--log Alpha)"}},
		{"only a security log", at("Systems/1 SL"), nil, []string{"the event log: find the event log: " +
			"the BMC shows no log of the hardware, neither for the system nor for its manager"}},
		{"the newest page", set(pages...), burns, nil},
		{"an entry without seconds", set("Systems/1/LogServices/SEL/Entries",
			strings.Replace(critical, now, time.Now().UTC().Format("2006-01-02T15:04"), 1)), burns, nil},
		{"two disks with one name", set("Systems/1/Storage/1", `{"Drives": [{"@odata.id": "/redfish/v1/a/0"},
				{"@odata.id": "/redfish/v1/b/0"}]}`,
			"a/0", `{"Id": "0", "Status": {"Health": "Critical"}}`, "b/0", `{"Id": "0", "Status": {"Health": "CRITICAL"}}`),
			[]string{"disk 0 failed", "disk 0 failed (redfish/v1/b/0)"}, nil},
		{"a condition names the part", replace("Systems/1", `"Health": "OK"}`, `"Health": "Warning",
				"Conditions": [{"Severity": "Warning", "Message": "There were 6 VRM mismatches."}]}`),
			[]string{"the BMC reports: There were 6 VRM mismatches."}, nil},
		{"a GPU of a baseboard", set("Systems", `{"Members": [{"@odata.id": "/redfish/v1/Systems/1"},
				{"@odata.id": "/redfish/v1/Systems/HGX"}]}`,
			"Systems/HGX", `{"Processors": {"@odata.id": "/redfish/v1/Systems/HGX/P"}}`,
			"Systems/HGX/P", `{"Members": [{"Id": "GPU_3", "ProcessorType": "GPU", "Status": {"Health": "Critical"}}]}`),
			[]string{"GPU GPU_3 failed"}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tree, p, m := growTree(t, tc.change)
			m.GetSpec().BmcEndpoint += "/redfish/v1/Systems/1"
			h, err := p.Health(t.Context(), m)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range h.Problems {
				got = append(got, p.Text)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.unread, h.Unread); diff != "" {
				t.Errorf("unread (-want +got):\n%s", diff)
			}
			for _, r := range tree.Requests() {
				if r.Unnamed {
					t.Errorf("request for %s, which no answer named", r.Path)
				}
			}
		})
	}
}

// TestOldLight checks which states of the old locator light are known: a Dell at rest is lit.
func TestOldLight(t *testing.T) {
	t.Parallel()
	for is, want := range map[string]providers.LightState{
		"Lit": providers.LightUnknown, "Blinking": providers.LightOn, "Off": providers.LightOff, "": providers.LightUnknown,
	} {
		_, p, m := growTree(t, replace("Systems/1", `"Links"`, fmt.Sprintf(`"IndicatorLED": %q, "Links"`, is)))
		if got, err := p.Light(t.Context(), m); err != nil || got != want {
			t.Errorf("light %q: got %q, %v; want %q", is, got, err, want)
		}
	}
}

// TestRefusedPart checks that a 403 for a part is a gap, and neither ends the checkup nor counts as
// a wrong password.
func TestRefusedPart(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"Systems/1/Storage", "Chassis/C", "Systems/1/LogServices", "Systems/1/Processors"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			tree, p, m := growTree(t, nil)
			tree.Set("/redfish/v1/"+at, redfishtest.Answer{Status: http.StatusForbidden,
				Body: `{"error": {"code": "SMC.1.0.OemLicenseNotPassed"}}`})
			h, err := p.Health(t.Context(), m)
			if err != nil || len(h.Unread) == 0 || !strings.Contains(h.Unread[0], "OemLicenseNotPassed") {
				t.Errorf("health: got %+v, %v; want a gap", h, err)
			}
			if v, err := p.Inventory(t.Context(), m); err != nil || v.Serial != "S1" {
				t.Errorf("inventory: got %+v, %v", v, err)
			}
		})
	}
}

// TestManagerOf checks which of several managers is taken for the BMC.
func TestManagerOf(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		change func(map[string]string)
		want   string
	}{
		{"the only BMC", nil, "2.1"},
		{"the one that names the system", set("Managers/AUX", `{"ManagerType": "EnclosureManager", "FirmwareVersion": "3",
			"Links": {"ManagerForServers": [{"@odata.id": "/redfish/v1/Systems/1/"}]}}`), "3"},
		{"two BMCs", set("Managers/AUX", `{"ManagerType": "BMC", "FirmwareVersion": "3"}`), ""},
		{"none is a BMC", set("Managers/B", `{"ManagerType": "RackManager", "FirmwareVersion": "3"}`), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, p, m := growTree(t, tc.change)
			v, err := p.Inventory(t.Context(), m)
			if err != nil || v.BMC != tc.want {
				t.Fatalf("got %+v, %v; want the firmware %q", v, err, tc.want)
			}
			if tc.want == "" && !strings.Contains(strings.Join(v.Missing, " "), "AUX, B") {
				t.Errorf("got missing %q, want the managers", v.Missing)
			}
		})
	}
}

// TestSerialAmongSystems checks that the machine is found by its serial number in any spelling, and
// on a Dell by its service tag.
func TestSerialAmongSystems(t *testing.T) {
	t.Parallel()
	_, p, m := growTree(t, set("Systems", `{"Members": [{"@odata.id": "/redfish/v1/Systems/0"},
			{"@odata.id": "/redfish/v1/Systems/1"}, {"@odata.id": "/redfish/v1/Systems/2"}]}`,
		"Systems/0", `{"SerialNumber": 12, "PowerState": "Off"}`,
		"Systems/1", `{"SerialNumber": "s2  ", "PowerState": "On"}`,
		"Systems/2", `{"SerialNumber": "CN7", "SKU": "TAG7", "Manufacturer": "Dell Inc.", "PowerState": "Off"}`))
	for serial, want := range map[string]providers.PowerState{
		"S2": providers.PowerOn, "12": providers.PowerOff, "tag7": providers.PowerOff, "CN7": providers.PowerOff,
	} {
		is := machine("m-"+serial, m.GetSpec().GetBmcEndpoint())
		is.GetSpec().Serial = serial
		if got, err := p.PowerState(t.Context(), is); err != nil || got != want {
			t.Errorf("serial %s: got %s, %v; want %s", serial, got, err, want)
		}
	}
}

// TestRefusedMedia checks which refusals of an image are tried again, and that a slot in use is
// emptied first.
func TestRefusedMedia(t *testing.T) {
	t.Parallel()
	const insert = "/redfish/v1/Systems/1/VirtualMedia/1/Actions/VirtualMedia.InsertMedia"
	for _, tc := range []struct {
		status int
		code   string
		want   providers.Class
		ejects int
	}{
		{400, "IDRAC.2.9.VRM0021", providers.Transient, 1},
		{400, "IDRAC.2.9.RAC0720", providers.Transient, 0},
		{404, "IDRAC.2.9.RAC0904", providers.Transient, 0},
		{403, "", providers.Transient, 0},
		{409, "", providers.Transient, 0},
		{503, "", providers.Transient, 0},
		{400, "Base.1.8.ActionNotSupported", providers.Unsupported, 0},
		{400, "Base.1.8.PropertyUnknown", providers.Unsupported, 0},
		{405, "", providers.Unsupported, 0},
		{501, "", providers.Unsupported, 0},
	} {
		t.Run(fmt.Sprint(tc.status, tc.code), func(t *testing.T) {
			t.Parallel()
			tree, p, m := growTree(t, nil)
			tree.Set("POST "+insert, redfishtest.Answer{Status: tc.status, Body: `{"error": {"code": "` + tc.code + `"}}`})
			err := p.InsertMedia(t.Context(), op("media"), m, "http://192.0.2.1/boot.iso")
			if got := providers.ClassOf(err); err == nil || got != tc.want {
				t.Errorf("got %v of class %s, want class %s", err, got, tc.want)
			}
			ejects := 0
			for _, r := range tree.Requests() {
				if strings.HasSuffix(r.Path, "EjectMedia") {
					ejects++
				}
			}
			if ejects != tc.ejects {
				t.Errorf("got %d requests to empty the slot, want %d", ejects, tc.ejects)
			}
		})
	}
}

// TestBrokenSlot checks that a virtual drive that cannot be read does not hide a good one, and is
// named if that fails.
func TestBrokenSlot(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusNotFound, http.StatusInternalServerError, http.StatusForbidden} {
		tree, p, m := growTree(t, set("Systems/1/VirtualMedia", `{"Members": [
			{"@odata.id": "/redfish/v1/broken"}, {"@odata.id": "/redfish/v1/Systems/1/VirtualMedia/1"}]}`))
		tree.Set("/redfish/v1/broken", redfishtest.Answer{Status: status})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		if _, err := p.Media(ctx, m); err != nil {
			t.Errorf("%d: read the slot: %v", status, err)
		}
		tree.Set("POST /redfish/v1/Systems/1/VirtualMedia/1/Actions/VirtualMedia.InsertMedia",
			redfishtest.Answer{Status: http.StatusConflict})
		err := p.InsertMedia(ctx, op("media"), m, "http://192.0.2.1/boot.iso")
		if err == nil || !strings.Contains(err.Error(), "/redfish/v1/broken") {
			t.Errorf("%d: got %v, want the broken slot named", status, err)
		}
		cancel()
	}
}
