package bmc

import (
	"strings"
	"time"
)

// Quirks is how the BMC of some vendor and model differs from the specification. The zero value is
// one that does not.
type Quirks struct {
	IPMIGap          time.Duration // least time between two IPMI commands
	Settle           time.Duration // how long a press may take to show; zero is the configured time
	BasicAuth        bool          // its sessions do not work
	NoIfMatch        bool          // it answers 412 to its own ETag
	OmitSameBootMode bool          // it refuses a boot mode even if it is in that mode
	SelectorOnly     bool          // of the IPMI boot flags it keeps the device only
	RollupVague      bool          // the health of its system follows what is no part's, such as its event log
	RollupVagueOff   bool          // the same while the system is off
	UsbCd            bool          // it boots virtual media as UsbCd, not as Cd, though it takes both
	BootFlagsExpire  bool          // the IPMI boot flags are dropped after 60 s unless that is switched off before
}

// quirkRow is one line of the table. A row fits when manufacturer and model contain its words,
// whatever their case.
type quirkRow struct {
	vendor, model string
	not           string // a model that it does not fit
	quirks        Quirks
	source        string
}

// quirkTable lists what is known, with its source. All rows that fit are added up.
func quirkTable() []quirkRow {
	return []quirkRow{
		{quirks: Quirks{BootFlagsExpire: true},
			source: "IPMI 2.0 §28.12: boot flags are valid for 60 s by default; openstack/ironic ipmitool.py switches that off for every BMC"},
		{vendor: "Supermicro", quirks: Quirks{IPMIGap: 5 * time.Second},
			source: "Ironic, [ipmi]min_command_interval: some hardware crashes below 5 s (its default for all; it names no maker: this choice is ours)"},
		{vendor: "Supermicro", quirks: Quirks{UsbCd: true}, not: "ARS-111GL-NHR",
			source: "openstack/sushy: virtual media of X11 and later boots as UsbCd only, but for the named model, which boots it as Cd"},
		{vendor: "ASRock", quirks: Quirks{IPMIGap: 5 * time.Second, Settle: 30 * time.Second},
			source: "the same; tinkerbell/pbnj#127: it shows an old power state over Redfish for a while"},
		{vendor: "MontaVista", model: "0xF02", quirks: Quirks{SelectorOnly: true},
			source: "OpenIPMI's ipmi_sim 2.0.33, seen: valid, persistent and EFI bits always read back as 0"},
		{vendor: "Lenovo", quirks: Quirks{NoIfMatch: true}, source: "stmcginnis/gofish#171, #510, #511: 412 to its own ETag (so does iDRAC10, which cannot be told by its model: setBoot finds out)"},
		{vendor: "Dell", quirks: Quirks{RollupVague: true},
			source: "bb-Ricardo/check_redfish#68: Health of the system is Critical for old entries of the log, with all sensors OK; drives, power and sensors are asked themselves"},
		{vendor: "HPE", quirks: Quirks{RollupVagueOff: true}, source: "bb-Ricardo/check_redfish#111: Health of the system is Critical, State Disabled, while it is off"},
		{vendor: "Sushy", quirks: Quirks{BasicAuth: true}, source: "research/bmc.md §3: sushy-tools has no SessionService"},
	}
}

// quirksOf adds up the rows that fit.
func quirksOf(vendor, model string) Quirks {
	var q Quirks
	for _, r := range quirkTable() {
		if contains(vendor, r.vendor) && contains(model, r.model) && (r.not == "" || !contains(model, r.not)) {
			q = q.plus(r.quirks)
		}
	}
	return q
}

// contains ignores case and blanks: it is Supermicro in one place and Super Micro Computer in
// another.
func contains(s, word string) bool {
	return strings.Contains(strings.ToLower(strings.ReplaceAll(s, " ", "")), strings.ToLower(word))
}

func (q Quirks) plus(o Quirks) Quirks {
	return Quirks{
		IPMIGap: max(q.IPMIGap, o.IPMIGap), Settle: max(q.Settle, o.Settle),
		RollupVague: q.RollupVague || o.RollupVague, RollupVagueOff: q.RollupVagueOff || o.RollupVagueOff,
		BasicAuth: q.BasicAuth || o.BasicAuth, NoIfMatch: q.NoIfMatch || o.NoIfMatch,
		OmitSameBootMode: q.OmitSameBootMode || o.OmitSameBootMode, SelectorOnly: q.SelectorOnly || o.SelectorOnly, BootFlagsExpire: q.BootFlagsExpire || o.BootFlagsExpire,
		UsbCd: q.UsbCd || o.UsbCd,
	}
}
