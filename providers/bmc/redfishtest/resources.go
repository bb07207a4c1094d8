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

func ref(path string) map[string]string { return map[string]string{"@odata.id": path} }

// collection returns a collection of resources below /redfish/v1/.
func (s *Service) collection(path, kind string, ids ...string) any {
	members := []any{}
	for _, id := range ids {
		members = append(members, ref("/redfish/v1/"+path+"/"+id))
	}
	name := kind + "Collection"
	return map[string]any{
		"@odata.id":           "/redfish/v1/" + path,
		"@odata.type":         "#" + name + "." + name,
		"Name":                kind + " Collection",
		"Members":             members,
		"Members@odata.count": len(members),
	}
}

func (s *Service) rootBody() any {
	root := map[string]any{
		"@odata.id":      "/redfish/v1/",
		"@odata.type":    "#ServiceRoot.v1_17_0.ServiceRoot",
		"Id":             "RootService",
		"Name":           "Root Service",
		"RedfishVersion": "1.21.0",
		"UUID":           "7a4e2c0e-6f5d-4f5b-9d2e-000000000001",
		"Vendor":         s.cfg.Manufacturer,
		"Product":        s.cfg.Manufacturer + " BMC",
		"Tasks":          ref("/redfish/v1/TaskService"),
		"Systems":        ref("/redfish/v1/Systems"),
		"Managers":       ref("/redfish/v1/Managers"),
		"Chassis":        ref("/redfish/v1/Chassis"),
	}
	if !s.quirks.NoSessions {
		root["SessionService"] = ref("/redfish/v1/SessionService")
		root["Links"] = map[string]any{"Sessions": ref(sessionsPath)}
	}
	return root
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

func health(state, h string) any { return map[string]string{"State": state, "Health": h} }

// show returns the ComputerSystem resource.
func (m *system) show() any {
	power, now := "Off", time.Now()
	if m.on {
		power = "On"
	}
	shown := Override{m.target, m.enabled, m.mode}
	if m.s.style().Settings != "" {
		shown = m.active
	}
	reset := map[string]any{"target": m.path() + "/Actions/ComputerSystem.Reset"}
	if shown := m.s.quirks.ShownResetTypes; len(shown) > 0 {
		reset["ResetType@Redfish.AllowableValues"] = shown
	}
	switch {
	case len(m.s.quirks.ShownResetTypes) > 0, m.s.quirks.ActionInfo:
		reset["@Redfish.ActionInfo"] = m.path() + "/ResetActionInfo"
	default:
		reset["ResetType@Redfish.AllowableValues"] = m.resetTypes()
	}
	all := map[string]any{
		"@odata.id":          m.path(),
		"@odata.type":        "#ComputerSystem.v1_23_0.ComputerSystem",
		"@odata.etag":        m.etag(),
		"Id":                 m.id,
		"Name":               "System " + m.id,
		"SystemType":         "Physical",
		"Manufacturer":       m.s.cfg.Manufacturer,
		"Model":              "Model 9",
		"SerialNumber":       m.serial(),
		"BiosVersion":        "P79 v1.45",
		"UUID":               fmt.Sprintf("38947555-7742-3448-3784-%012d", m.number+1),
		"PowerState":         power,
		"Boot":               m.boot(shown),
		"Status":             m.s.status(Rollup),
		"BootProgress":       map[string]string{"LastState": m.progress(now), "LastStateTime": stamp(m.since)},
		"LastResetTime":      stamp(m.since),
		"Processors":         ref(m.path() + "/Processors"),
		"Memory":             ref(m.path() + "/Memory"),
		"Storage":            ref(m.path() + "/Storage"),
		"EthernetInterfaces": ref(m.path() + "/EthernetInterfaces"),
		"PCIeDevices":        []any{ref(m.path() + "/PCIeDevices/1"), ref(m.path() + "/PCIeDevices/2")},
		"Links": map[string]any{
			"ManagedBy": []any{ref(m.managerPath())},
			"Chassis":   []any{ref(m.s.chassisPath())},
		},
		"Actions": map[string]any{"#ComputerSystem.Reset": reset},
	}
	if !m.s.quirks.ManagerLog {
		all["LogServices"] = ref(m.logs())
	}
	if m.s.style().MediaOnSystem {
		all["VirtualMedia"] = ref(m.path() + "/VirtualMedia")
	}
	if id := m.s.style().Settings; id != "" {
		all["@Redfish.Settings"] = map[string]any{
			"@odata.type":    "#Settings.v1_4_0.Settings",
			"SettingsObject": ref(m.path() + "/" + id),
		}
	}
	m.lit(all)
	return all
}

// logs returns the path of the log services.
func (m *system) logs() string {
	if m.s.quirks.ManagerLog {
		return m.managerPath() + "/LogServices"
	}
	return m.path() + "/LogServices"
}

func (m *system) serial() string { return fmt.Sprintf("SN-%04d", m.s.sled(m.number)+1) }

// parts serves the resources below a system.
func (m *system) parts(path string, parts []string) (*result, *fault) {
	all := m.inside()
	below := strings.Join(parts, "/")
	if body, found := all[below]; found {
		body["@odata.id"] = path
		body["Id"] = parts[len(parts)-1]
		return ok(body), nil
	}
	kinds := map[string]string{
		"Processors":         "Processor",
		"Memory":             "Memory",
		"Storage":            "Storage",
		"EthernetInterfaces": "EthernetInterface",
		"LogServices":        "LogService",
	}
	for _, id := range m.logIDs() {
		kinds["LogServices/"+id+"/Entries"] = "LogEntry"
	}
	kind, found := kinds[below]
	if !found {
		return nil, notFound(path)
	}
	var ids []string
	if kind == "LogService" {
		ids = m.logIDs()
	}
	for i := 1; kind != "LogService"; i++ { // members are numbered
		id := strconv.Itoa(i)
		if _, there := all[below+"/"+id]; !there {
			break
		}
		ids = append(ids, id)
	}
	return ok(m.s.collection(strings.TrimPrefix(path, "/redfish/v1/"), kind, ids...)), nil
}

// inside returns the parts of the machine, by path.
func (m *system) inside() map[string]map[string]any {
	all := map[string]map[string]any{}
	for i := 1; i <= 2; i++ {
		all[fmt.Sprint("Processors/", i)] = map[string]any{
			"@odata.type":   "#Processor.v1_20_0.Processor",
			"Name":          "Processor",
			"Socket":        fmt.Sprint("CPU ", i),
			"ProcessorType": "CPU",
			"Manufacturer":  "Contoso",
			"Model":         "Contoso 9654",
			"TotalCores":    96,
			"TotalThreads":  192,
			"SerialNumber":  fmt.Sprint("C", i),
			"Status":        health("Enabled", "OK"),
		}
		all[fmt.Sprint("EthernetInterfaces/", i)] = map[string]any{
			"@odata.type":         "#EthernetInterface.v1_12_2.EthernetInterface",
			"Name":                "Port",
			"MACAddress":          fmt.Sprintf("52:54:00:AA:%02X:%02X", m.number, i),
			"PermanentMACAddress": fmt.Sprintf("52:54:00:AA:%02X:%02X", m.number, i),
			"SpeedMbps":           25000,
			"LinkStatus":          []string{"LinkUp", "LinkDown"}[i-1],
			"Status":              health("Enabled", "OK"),
		}
	}
	all["Processors/3"] = map[string]any{
		"@odata.type":     "#Processor.v1_20_0.Processor",
		"Name":            "GPU",
		"Socket":          "GPU 1",
		"ProcessorType":   "GPU",
		"Manufacturer":    "Contoso",
		"Model":           "X100",
		"SerialNumber":    "G1",
		"FirmwareVersion": "96.00",
		"Status":          health("Enabled", "OK"),
	}
	devices := []map[string]any{
		{"Model": "X100", "SerialNumber": "G1", "Status": health("Enabled", "OK")},
		{"Model": "", "Status": health("Absent", "")},
	}
	for i, d := range devices {
		d["@odata.type"], d["Name"] = "#PCIeDevice.v1_13_0.PCIeDevice", "PCIe Device"
		d["Manufacturer"], d["FirmwareVersion"] = "Contoso", "96.00"
		all[fmt.Sprint("PCIeDevices/", i+1)] = d
	}
	for i := 1; i <= 4; i++ {
		dimm := map[string]any{
			"@odata.type":   "#Memory.v1_20_0.Memory",
			"Name":          "DIMM",
			"DeviceLocator": fmt.Sprint("DIMM A", i),
			"Status":        health("Absent", ""),
		}
		if i < 4 {
			dimm["Status"] = health("Enabled", map[bool]string{true: "Warning", false: "OK"}[i == 3 && !m.s.whole])
			dimm["CapacityMiB"], dimm["MemoryDeviceType"], dimm["SerialNumber"] = 32768, "DDR5", fmt.Sprint("D", i)
		}
		all[fmt.Sprint("Memory/", i)] = dimm
	}
	drives := []any{}
	for i := 1; i <= 2; i++ {
		below := fmt.Sprint("Storage/1/Drives/", i)
		drives = append(drives, ref(m.path()+"/"+below))
		all[below] = map[string]any{
			"@odata.type":      "#Drive.v1_20_0.Drive",
			"Name":             "Drive",
			"Model":            "Contoso PM9",
			"SerialNumber":     fmt.Sprint("S", i),
			"CapacityBytes":    int64(960197124096),
			"MediaType":        "SSD",
			"Protocol":         "NVMe",
			"Revision":         "1.2",
			"FailurePredicted": i == 2 && !m.s.whole,
			"Status":           m.s.status(Part(fmt.Sprint("disk ", i))),
		}
	}
	all["Storage/1"] = map[string]any{
		"@odata.type":        "#Storage.v1_17_0.Storage",
		"Name":               "Storage",
		"Drives":             drives,
		"Drives@odata.count": len(drives),
		"Status":             health("Enabled", "OK"),
	}
	for _, id := range m.logIDs() {
		service := map[string]any{
			"@odata.type":     "#LogService.v1_8_0.LogService",
			"Name":            "System Event Log",
			"OverWritePolicy": "WrapsWhenFull",
			"Entries":         ref(m.logs() + "/" + id + "/Entries"),
			"Actions": map[string]any{
				"#LogService.ClearLog": map[string]any{"target": m.logs() + "/" + id + clearLog},
			},
		}
		other := slices.Contains(m.s.quirks.OtherLogs, id)
		if other {
			service["Name"] = id
		}
		if kind := cmp.Or(m.s.style().LogType, "SEL"); kind != "-" && !other {
			service["LogEntryType"] = kind
		}
		all["LogServices/"+id] = service
	}
	for i, e := range m.log {
		all[fmt.Sprint("LogServices/", m.s.logID(), "/Entries/", i+1)] = map[string]any{
			"@odata.type": "#LogEntry.v1_17_0.LogEntry",
			"Name":        "Log Entry",
			"EntryType":   "SEL",
			"Severity":    e.severity,
			"Created":     stamp(e.at),
			"Message":     e.message,
			"SensorType":  "System Event",
		}
	}
	return all
}

// chassis serves the chassis of the systems.
func (s *Service) chassis(r *http.Request, parts []string) (*result, *fault) {
	switch {
	case r.Method != http.MethodGet:
		return nil, notAllowed()
	case len(parts) == 0:
		return ok(s.collection("Chassis", "Chassis", s.chassisID())), nil
	case len(parts) == 1 && parts[0] == s.chassisID():
		return ok(map[string]any{
			"@odata.id":    s.chassisPath(),
			"@odata.type":  "#Chassis.v1_25_1.Chassis",
			"Id":           s.chassisID(),
			"Name":         "Chassis",
			"ChassisType":  "RackMount",
			"Manufacturer": s.cfg.Manufacturer,
			"Status":       health("Enabled", "OK"),
			"Power":        ref(s.chassisPath() + "/Power"),
			"Thermal":      ref(s.chassisPath() + "/Thermal"),
		}), nil
	case len(parts) == 2 && parts[0] == s.chassisID():
		return s.cooled(r, parts)
	}
	return nil, notFound(r.URL.Path)
}
