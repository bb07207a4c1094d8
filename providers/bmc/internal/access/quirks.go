package access

import (
	"strings"
	"time"
)

// Quirks describes how the BMC of a vendor and model deviates from the specification. The zero
// value is a BMC that does not.
type Quirks struct {
	IPMIGap          time.Duration // minimum pause between two IPMI commands
	Settle           time.Duration // until a press shows; zero is the configured time
	BasicAuth        bool          // its sessions do not work
	NoIfMatch        bool          // it returns 412 for its own ETag
	OmitSameBootMode bool          // it refuses a boot mode even if it is in that mode
	SelectorOnly     bool          // of the IPMI boot flags it keeps the device only
	RollupVague      bool          // system health also reflects non-parts, such as the event log
	RollupVagueOff   bool          // the same, while the system is off
	UsbCd            bool          // it accepts Cd and UsbCd, and boots virtual media as UsbCd only
	BootFlagsExpire  bool          // IPMI boot flags expire after 60 s unless configured otherwise
}

// quirkRow is one row of the table. A row applies if vendor and model contain its words, in any
// case.
type quirkRow struct {
	vendor, model string
	not           string // a model that it does not apply to
	quirks        Quirks
	source        string
}

// quirkTable lists the known quirks with their sources. All rows that apply are combined.
func quirkTable() []quirkRow {
	return []quirkRow{
		{
			quirks: Quirks{BootFlagsExpire: true},
			source: "IPMI 2.0 §28.12: boot flags are valid for 60 s by default; " +
				"openstack/ironic ipmitool.py disables that for every BMC",
		},
		{
			vendor: "Supermicro",
			quirks: Quirks{IPMIGap: 5 * time.Second},
			source: "Ironic, [ipmi]min_command_interval: some hardware crashes below 5 s " +
				"(its default for all; it names no vendor: this choice is ours)",
		},
		{
			vendor: "Supermicro",
			quirks: Quirks{UsbCd: true},
			not:    "ARS-111GL-NHR",
			source: "openstack/sushy: X11 and later boot virtual media as UsbCd only, " +
				"except for the named model, which boots it as Cd",
		},
		{
			vendor: "ASRock",
			quirks: Quirks{IPMIGap: 5 * time.Second, Settle: 30 * time.Second},
			source: "the same; tinkerbell/pbnj#127: Redfish shows an old power state for a while",
		},
		{
			vendor: "MontaVista",
			model:  "0xF02",
			quirks: Quirks{SelectorOnly: true},
			source: "observed with OpenIPMI's ipmi_sim 2.0.33: valid, persistent and EFI bits always read back as 0",
		},
		{
			vendor: "Lenovo",
			quirks: Quirks{NoIfMatch: true},
			source: "stmcginnis/gofish#171, #510, #511: 412 for its own ETag " +
				"(so does iDRAC10, whose model does not show it: SetBoot detects it)",
		},
		{
			vendor: "Dell",
			quirks: Quirks{RollupVague: true},
			source: "bb-Ricardo/check_redfish#68: Health of the system is Critical for old log entries, " +
				"with all sensors OK; drives, power and sensors are read directly",
		},
		{
			vendor: "HPE",
			quirks: Quirks{RollupVagueOff: true},
			source: "bb-Ricardo/check_redfish#111: Health of the system is Critical, State Disabled, while off",
		},
		{
			vendor: "Sushy",
			quirks: Quirks{BasicAuth: true},
			source: "sushy-tools has no SessionService",
		},
	}
}

// QuirksOf combines the rows that apply.
func QuirksOf(vendor, model string) Quirks {
	var q Quirks
	for _, r := range quirkTable() {
		if Contains(vendor, r.vendor) && Contains(model, r.model) && (r.not == "" || !Contains(model, r.not)) {
			q = q.plus(r.quirks)
		}
	}
	return q
}

// Contains reports whether s contains word. It ignores case and blanks: vendors write both
// Supermicro and Super Micro Computer.
func Contains(s, word string) bool {
	return strings.Contains(strings.ToLower(strings.ReplaceAll(s, " ", "")), strings.ToLower(word))
}

func (q Quirks) plus(o Quirks) Quirks {
	return Quirks{
		IPMIGap:          max(q.IPMIGap, o.IPMIGap),
		Settle:           max(q.Settle, o.Settle),
		RollupVague:      q.RollupVague || o.RollupVague,
		RollupVagueOff:   q.RollupVagueOff || o.RollupVagueOff,
		BasicAuth:        q.BasicAuth || o.BasicAuth,
		NoIfMatch:        q.NoIfMatch || o.NoIfMatch,
		OmitSameBootMode: q.OmitSameBootMode || o.OmitSameBootMode,
		SelectorOnly:     q.SelectorOnly || o.SelectorOnly,
		BootFlagsExpire:  q.BootFlagsExpire || o.BootFlagsExpire,
		UsbCd:            q.UsbCd || o.UsbCd,
	}
}
