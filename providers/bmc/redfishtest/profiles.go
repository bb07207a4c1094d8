package redfishtest

import (
	"net/http"
	"time"
)

// Profile describes how a vendor's BMC presents itself, according to the vendor's public reference.
type Profile struct {
	Name     string
	Source   string // reference
	Config   Config // Systems, Slots, Manufacturer and Style
	Quirks   Quirks
	Endpoint string // path that an endpoint needs, if the service has more than one system
	Media    string // URL of an image that its virtual drives accept; default an http:// one
}

// cd returns a virtual drive for CDs, and floppy one for floppy disks.
func cd(id string) Slot     { return Slot{ID: id, Types: []string{"CD", "DVD"}} }
func floppy(id string) Slot { return Slot{ID: id, Types: []string{"Floppy", "USBStick"}} }

// Profiles returns the vendors' BMCs that the package imitates.
func Profiles() []Profile {
	all := []Profile{
		{
			Name:   "iDRAC9",
			Source: "Dell, iDRAC9 Redfish API Guide (firmware 6.10 to 7.x)",
			Config: Config{
				Manufacturer: "Dell Inc.",
				Systems:      []string{"System.Embedded.1"},
				Slots:        []Slot{cd("CD"), floppy("RemovableDisk")},
				Style: Style{
					Managers:  []string{"iDRAC.Embedded.1"},
					ChassisID: "System.Embedded.1",
					LogID:     "Sel",
					Registry:  "IDRAC.2.8",
					Targets: []string{
						"None", "Pxe", "Floppy", "Cd", "Hdd", "BiosSetup", "Utilities", "UefiTarget",
						"SDCard", "UefiHttp",
					},
					BMCResets: []string{"GracefulRestart"},
				},
			},
			Quirks: Quirks{
				ManagerLog:   true,
				OffIsAnError: true,
				ResetTypes: []string{
					"On", "ForceOff", "ForceRestart", "GracefulRestart", "GracefulShutdown",
					"PushPowerButton", "Nmi", "PowerCycle",
				},
			},
		},
		{
			Name:   "iDRAC10",
			Source: "Dell, iDRAC10 Redfish API Guide; stmcginnis/gofish#510: 412 for its own ETag",
			Config: Config{
				Manufacturer: "Dell Inc.",
				Systems:      []string{"System.Embedded.1"},
				Slots:        []Slot{cd("1"), floppy("2")},
				Style: Style{
					Managers:      []string{"iDRAC.Embedded.1"},
					ChassisID:     "System.Embedded.1",
					LogID:         "Sel",
					Registry:      "IDRAC.4.0",
					MediaOnSystem: true,
					StrongETags:   true,
					Targets: []string{
						"None", "Pxe", "Cd", "Hdd", "BiosSetup", "Utilities", "UefiTarget",
						"UefiHttp",
					},
					BMCResets: []string{"GracefulRestart", "ForceRestart"},
				},
			},
			Quirks: Quirks{
				ManagerLog:   true,
				OffIsAnError: true,
				UEFIOnly:     true,
				OwnETag:      true,
				ResetTypes: []string{
					"On", "ForceOff", "ForceRestart", "GracefulRestart", "GracefulShutdown",
					"PushPowerButton", "Nmi", "PowerCycle", "FullPowerCycle",
				},
			},
		},
		{
			Name:   "iLO5",
			Source: "HPE, iLO 5 Redfish API reference 2.9x",
			Config: Config{
				Manufacturer: "HPE",
				Systems:      []string{"1"},
				Slots:        []Slot{floppy("1"), cd("2")},
				Style: Style{
					LogID:         "IML",
					LogType:       "-",
					Registry:      "iLO.2.14",
					NoMessages:    true,
					Slashes:       true,
					FullLocations: true,
					Changed:       http.StatusOK,
					POSTStatus:    http.StatusBadRequest,
					OldLight:      true,
					Targets: []string{
						"None", "Cd", "Hdd", "Usb", "SDCard", "Utilities", "Diags", "BiosSetup",
						"Pxe", "UefiShell", "UefiHttp", "UefiTarget",
					},
					BMCResets: []string{"ForceRestart", "GracefulRestart"},
				},
			},
			Quirks: Quirks{
				InPOST:       true,
				OffIsAnError: true,
				ResetTypes: []string{
					"On", "ForceOff", "GracefulShutdown", "ForceRestart", "Nmi", "PushPowerButton",
					"GracefulRestart",
				},
			},
		},
		{
			Name:   "iLO6",
			Source: "HPE, iLO 6 Redfish API reference 1.6x",
			Config: Config{
				Manufacturer: "HPE",
				Systems:      []string{"1"},
				Slots:        []Slot{floppy("1"), cd("2")},
				Style: Style{
					LogID:         "IML",
					LogType:       "-",
					Registry:      "iLO.2.24",
					NoMessages:    true,
					Slashes:       true,
					FullLocations: true,
					Changed:       http.StatusOK,
					POSTStatus:    http.StatusBadRequest,
					Targets: []string{
						"None", "Cd", "Hdd", "Usb", "SDCard", "Utilities", "Diags", "BiosSetup",
						"Pxe", "UefiShell", "UefiHttp", "UefiTarget",
					},
					BMCResets: []string{"ForceRestart", "GracefulRestart"},
				},
			},
			Quirks: Quirks{
				InPOST:       true,
				OffIsAnError: true,
				UEFIOnly:     true,
				MediaStrict:  true,
				ResetTypes: []string{
					"On", "ForceOff", "GracefulShutdown", "ForceRestart", "Nmi", "PushPowerButton",
					"GracefulRestart",
				},
			},
		},
		{
			Name:   "XCC",
			Source: "Lenovo, XClarity Controller REST API Guide: drives EXT1 to EXT4 take a PATCH",
			Config: Config{
				Manufacturer: "Lenovo",
				Systems:      []string{"1"},
				Slots: []Slot{
					{ID: "RDOC1", Types: []string{"CD", "USBStick"}, Patch: true, Local: true},
					{ID: "EXT1", Types: []string{"CD", "USBStick"}, Patch: true},
					{ID: "EXT2", Types: []string{"CD", "USBStick"}, Patch: true},
				},
				Style: Style{
					LogID:         "PlatformLog",
					LogType:       "Event",
					Registry:      "ExtendedError.1.2",
					StrongETags:   true,
					NeedsMatch:    true,
					OldLight:      true,
					Changed:       http.StatusOK,
					MediaOnSystem: true,
					Targets: []string{
						"None", "Pxe", "Cd", "Usb", "Hdd", "BiosSetup", "Diags", "UefiTarget",
						"UefiHttp",
					},
					BMCResets: []string{"GracefulRestart", "ForceRestart"},
				},
			},
			Quirks: Quirks{
				OwnETag: true,
				ResetTypes: []string{
					"On", "Nmi", "GracefulShutdown", "GracefulRestart", "ForceOn", "ForceOff",
					"ForceRestart",
				},
			},
		},
		{
			Name:   "X12",
			Source: "Supermicro, Redfish User's Guide 4.x, X12/H12",
			Config: Config{
				Manufacturer: "Supermicro",
				Systems:      []string{"1"},
				Slots:        []Slot{{ID: "VirtualMedia1", Types: []string{"CD", "USBStick"}, Hides: true}},
				Style: Style{
					LogID:    "Log1",
					LogType:  "Event",
					Registry: "SMC.1.0",
					OldLight: true,
					Changed:  http.StatusAccepted,
					TaskTime: 10 * time.Millisecond,
					Targets: []string{
						"None", "Pxe", "Floppy", "Cd", "Usb", "Hdd", "BiosSetup", "UsbCd",
						"UefiBootNext", "UefiHttp",
					},
					BMCResets: []string{"GracefulRestart"},
				},
			},
			Quirks: Quirks{
				MediaStrict:   true,
				ActionInfo:    true,
				MediaSpelling: true,
				ResetTypes: []string{
					"On", "ForceOff", "GracefulShutdown", "GracefulRestart", "ForceRestart", "Nmi",
					"ForceOn",
				},
			},
		},
		{
			Name:   "X13",
			Source: "Supermicro, Redfish Reference Guide, X13/H13: InsertMedia wants TransferProtocolType",
			Config: Config{
				Manufacturer: "Supermicro",
				Systems:      []string{"1"},
				Slots:        []Slot{{ID: "VirtualMedia1", Types: []string{"CD", "USBStick"}}},
				Style: Style{
					LogID:       "Log1",
					LogType:     "Event",
					Registry:    "Base.v1_10_3",
					StrongETags: true,
					Changed:     http.StatusAccepted,
					TaskTime:    10 * time.Millisecond,
					Targets: []string{
						"None", "Pxe", "Cd", "Usb", "Hdd", "BiosSetup", "UsbCd", "UefiBootNext",
						"UefiHttp",
					},
					BMCResets: []string{"GracefulRestart", "ForceRestart"},
				},
			},
			Quirks: Quirks{
				UEFIOnly:   true,
				MediaNeeds: []string{"TransferProtocolType"},
				ActionInfo: true,
				ResetTypes: []string{
					"On", "ForceOff", "GracefulShutdown", "GracefulRestart", "ForceRestart", "Nmi",
					"ForceOn",
				},
			},
		},
		{
			Name: "OpenBMC",
			Source: "openbmc/bmcweb, Redfish.md and redfish-core: no boot mode without a Type object, " +
				"images over https or cifs",
			Config: Config{
				Manufacturer: "Contoso",
				Systems:      []string{"system"},
				Slots:        []Slot{cd("Slot_0"), cd("Slot_1")},
				Style: Style{
					Managers:    []string{"bmc"},
					ChassisID:   "chassis",
					LogID:       "EventLog",
					LogType:     "Event",
					StrongETags: true,
					Schemes:     []string{"https", "smb"},
					Targets:     []string{"None", "Pxe", "Hdd", "Cd", "Diags", "BiosSetup", "Usb"},
					BMCResets:   []string{"GracefulRestart", "ForceRestart"},
				},
			},
			Quirks: Quirks{
				NoMode:     true,
				ActionInfo: true,
				MediaNeeds: []string{"TransferProtocolType"},
				ResetTypes: []string{
					"On", "ForceOff", "ForceOn", "ForceRestart", "GracefulRestart",
					"GracefulShutdown", "PowerCycle", "Nmi",
				},
			},
			Media: "https://192.0.2.1/boot.iso",
		},
		{
			Name: "MegaRAC",
			Source: "AMI MegaRAC SP-X, as Lenovo's TSM REST API Guide describes it: PATCH Systems/Self/SD; " +
				"DMTF/Redfish-Tacklebox#111",
			Config: Config{
				Manufacturer: "AMI",
				Systems:      []string{"Self"},
				Slots:        []Slot{cd("CD1"), floppy("HD1")},
				Style: Style{
					ChassisID:  "Self",
					LogID:      "SEL",
					Registry:   "Base.1.12",
					Settings:   "SD",
					NeedsMatch: true,
					OldLight:   true,
					Changed:    http.StatusAccepted,
					TaskTime:   10 * time.Millisecond,
					Targets: []string{
						"None", "Pxe", "Cd", "Usb", "Hdd", "BiosSetup", "UefiShell", "UefiTarget",
						"UefiHttp",
					},
					BMCResets: []string{"ForceRestart"},
				},
			},
			Quirks: Quirks{
				ManagerLog: true,
				MediaNeeds: []string{"TransferProtocolType", "TransferMethod"},
				ResetTypes: []string{"On", "ForceOff", "GracefulShutdown", "ForceRestart"},
			},
		},
		{
			Name: "HGX",
			Source: "NVIDIA, GB200 NVL and HGX Redfish APIs: systems System_0 and HGX_Baseboard_0, " +
				"boot settings at System_0/Settings",
			Config: Config{
				Manufacturer: "NVIDIA",
				Systems:      []string{"System_0"},
				Slots:        []Slot{cd("USB1")},
				Style: Style{
					Managers:    []string{"BMC_0"},
					ChassisID:   "BMC_0",
					LogID:       "SEL",
					Others:      []string{"HGX_Baseboard_0"},
					StrongETags: true,
					Settings:    "Settings",
					Changed:     http.StatusOK,
					Targets: []string{
						"None", "Pxe", "UefiHttp", "UefiShell", "UefiTarget", "UefiBootNext",
						"BiosSetup", "Usb", "Cd", "Hdd",
					},
					BMCResets: []string{"GracefulRestart", "ForceRestart"},
				},
			},
			Quirks: Quirks{
				UEFIOnly:   true,
				ActionInfo: true,
				ResetTypes: []string{
					"On", "ForceOff", "ForceOn", "ForceRestart", "GracefulRestart",
					"GracefulShutdown", "PowerCycle",
				},
			},
			Endpoint: "/redfish/v1/Systems/System_0",
		},
	}
	for i := range all {
		if all[i].Media == "" {
			all[i].Media = "http://192.0.2.1/boot.iso"
		}
	}
	return all
}
