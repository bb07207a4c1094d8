package redfishtest

import "net/http"

// Part is a part of a machine that can be broken.
type Part string

// The parts.
const (
	Disk1    Part = "disk 1"   // Health: Critical
	PSU1     Part = "PSU 1"    // no input
	CPU1Temp Part = "CPU1"     // 94 °C, over its threshold of 90
	Fan1     Part = "fan 1"    // Health: Critical
	Rollup   Part = "roll-up"  // the system reports Critical, and no part does
	Mixed    Part = "mixed up" // Health: Enabled, State: OK, as one vendor has it
)

// Healthy makes all parts healthy, except for those that Break has broken. By default a drive is
// predicted to fail, and a DIMM has a warning.
func (s *Service) Healthy() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.whole = true
}

// Break breaks a part of all machines.
func (s *Service) Break(p Part) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken == nil {
		s.broken = map[Part]bool{}
	}
	s.broken[p] = true
}

// status returns the Status of a part.
func (s *Service) status(p Part) any {
	switch {
	case s.broken[p]:
		return health("Enabled", "Critical")
	case s.broken[Mixed]:
		return health("OK", "Enabled")
	}
	return health("Enabled", "OK")
}

// power returns the Power resource of the chassis (Power schema 1.7).
func (s *Service) power() *result {
	supply := map[string]any{
		"@odata.id": s.chassisPath() + "/Power#/PowerSupplies/0",
		"MemberId":  "1",
		"Name":      "Power Supply 1",
		"Status":    s.status(""),
	}
	if s.broken[PSU1] {
		supply["Status"] = health("UnavailableOffline", "Critical")
	}
	return ok(map[string]any{
		"@odata.id":   s.chassisPath() + "/Power",
		"@odata.type": "#Power.v1_7_3.Power",
		"Id":          "Power",
		"Name":        "Power",
		"PowerSupplies": []any{
			supply,
			map[string]any{
				"@odata.id": s.chassisPath() + "/Power#/PowerSupplies/1",
				"MemberId":  "2",
				"Name":      "Power Supply 2",
				"Status":    health("Absent", ""),
			},
		},
	})
}

// thermal returns the Thermal resource of the chassis (Thermal schema 1.7).
func (s *Service) thermal() *result {
	reading := 54
	if s.broken[CPU1Temp] {
		reading = 94
	}
	return ok(map[string]any{
		"@odata.id":   s.chassisPath() + "/Thermal",
		"@odata.type": "#Thermal.v1_7_2.Thermal",
		"Id":          "Thermal",
		"Name":        "Thermal",
		"Temperatures": []any{
			map[string]any{
				"MemberId":               "0",
				"Name":                   "CPU1",
				"ReadingCelsius":         reading,
				"UpperThresholdCritical": 90,
				"Status":                 s.status(CPU1Temp),
			},
			map[string]any{
				"MemberId":               "1",
				"Name":                   "Inlet",
				"ReadingCelsius":         nil,
				"UpperThresholdCritical": nil,
				"Status":                 health("Disabled", ""),
			},
		},
		"Fans": []any{
			map[string]any{"MemberId": "0", "Name": "Fan 1", "Reading": 8400, "Status": s.status(Fan1)},
		},
	})
}

// cooled serves the power and thermal resources of a chassis.
func (s *Service) cooled(r *http.Request, parts []string) (*result, *fault) {
	switch parts[1] {
	case "Power":
		return s.power(), nil
	case "Thermal":
		return s.thermal(), nil
	}
	return nil, notFound(r.URL.Path)
}
