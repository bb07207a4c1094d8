package providers

import (
	"context"
	"time"
)

// What a BMC can do beside power and boot.

// LightState is whether a locator light is on.
type LightState string

// The states of a locator light. It is unknown where a BMC does not tell.
const (
	LightUnknown LightState = ""
	LightOn      LightState = "on"
	LightOff     LightState = "off"
)

// Identifier switches the light by which people find a machine in its rack.
type Identifier interface {
	Light(ctx context.Context, m Machine) (LightState, error)
	Identify(ctx context.Context, op Op, m Machine, on bool) error
}

// Event is an entry of a BMC's event log.
type Event struct {
	ID       string
	At       time.Time // zero if the BMC does not tell
	Severity string    // OK, Warning, Critical; empty if it does not tell
	Sensor   string
	Message  string
}

// EventLog reads and clears the event log of a BMC. To read it changes nothing.
type EventLog interface {
	Events(ctx context.Context, m Machine) ([]Event, error) // the oldest first
	// ClearEvents empties the log. Some BMCs then make an entry of that.
	ClearEvents(ctx context.Context, op Op, m Machine) error
}

// BMCResetter restarts BMCs, which leaves their hosts alone.
type BMCResetter interface {
	// ResetBMC answers when the reset was accepted, which proves nothing. It refuses, as transient,
	// what comes less than an hour after the last one.
	ResetBMC(ctx context.Context, op Op, m Machine) error
	// BMCResetAt reports when a reset was last sent, also by another leader, and no later than it
	// can have arrived; zero if none is known.
	BMCResetAt(ctx context.Context, m Machine) (time.Time, error)
}

// InventoryReader reads what is in a machine. It must not change anything.
type InventoryReader interface {
	Inventory(ctx context.Context, m Machine) (*Inventory, error)
}

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
	GPUs         []Card   // GPUs and other accelerators
	PCIe         []Card   // devices on PCI Express, GPUs and network cards among them
	Traits       []string // what a third party says of it by name, e.g. HW_CPU_X86_VMX
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

// Card is an accelerator, or a device on PCI Express.
type Card struct {
	Slot     string
	Model    string
	Serial   string
	Firmware string
	Bytes    int64 // memory of an accelerator
	Healthy  bool
}

// NIC is a network port.
type NIC struct {
	Name string
	MAC  string // lower case, with colons
	Mbps int
	Up   bool
}
