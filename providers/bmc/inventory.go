package bmc

import "time"

// Inventory is what a BMC says is in a machine.
type Inventory struct {
	Manufacturer string
	Model        string
	Serial       string
	UUID         string
	BIOS         string // firmware version
	BMC          string // firmware version
	CPUs         []CPU
	Memory       []DIMM
	MemoryBytes  int64 // of all modules
	Disks        []Disk
	NICs         []NIC
	Missing      []string // what could not be read, and why: the rest is complete
}

// CPU is a processor.
type CPU struct {
	Slot    string
	Model   string
	Cores   int
	Threads int
	Serial  string
	Healthy bool
}

// DIMM is a memory module.
type DIMM struct {
	Slot    string
	Bytes   int64
	Type    string // e.g. DDR5
	Serial  string
	Healthy bool
}

// Disk is a drive.
type Disk struct {
	Slot     string
	Model    string
	Serial   string
	Bytes    int64
	Media    string // SSD, HDD
	Firmware string
	Healthy  bool // and no failure is predicted
}

// NIC is a network port.
type NIC struct {
	Name string
	MAC  string // lower case, with colons
	Mbps int
	Up   bool
}

// Event is an entry of a BMC's event log.
type Event struct {
	ID       string
	At       time.Time // zero when the BMC does not tell
	Severity string    // OK, Warning, Critical; empty when it does not tell
	Sensor   string
	Message  string
}

// Progress is how far a machine has booted, as its BMC sees it.
type Progress struct {
	State string    // BootProgressTypes of the ComputerSystem schema, e.g. OSRunning; empty when the BMC does not tell
	At    time.Time // since when
}
