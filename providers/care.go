package providers

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/internal/facts/known"
)

// Functions of a BMC other than power and boot.

// LightState is the state of a locator light.
type LightState string

// The states of a locator light. LightUnknown means that the BMC does not report it.
const (
	LightUnknown LightState = ""
	LightOn      LightState = "on"
	LightOff     LightState = "off"
)

// Identifier switches the locator light of a machine in its rack.
type Identifier interface {
	Light(ctx context.Context, m Machine) (LightState, error)
	Identify(ctx context.Context, op Op, m Machine, on bool) error
}

// Event is an entry of a BMC's event log.
type Event struct {
	ID       string
	At       time.Time // zero if the BMC does not report it
	Severity string    // OK, Warning, Critical; empty if the BMC does not report it
	Sensor   string
	Message  string
	Log      string // the id of the log that it is in; empty if the BMC has only one
}

// NoteID is the id of an Event that is no entry of the log, but says what of it is not read.
const NoteID = "-"

// Entries returns the events that are entries of a log, without notes.
func Entries(all []Event) []Event {
	return slices.DeleteFunc(slices.Clone(all), func(e Event) bool { return e.ID == NoteID })
}

// EventLog reads and clears an event log of a BMC: the one with an id, or, if that is empty, the
// log of the hardware. It does neither to security and audit logs. Reading changes nothing.
type EventLog interface {
	Events(ctx context.Context, m Machine, log string) ([]Event, error) // the oldest first
	// ClearEvents empties the log that Events reads, and no other one. Some BMCs then log that it
	// was cleared.
	ClearEvents(ctx context.Context, op Op, m Machine, log string) error
}

// OnlySEL returns an error of class Unsupported if log names another log than the SEL, for a BMC
// that has no other one.
func OnlySEL(log string) error {
	if log == "" || strings.EqualFold(log, "SEL") {
		return nil
	}
	return Errorf(Unsupported, "find log "+log, "the BMC shows one log only, the SEL")
}

// BMCResetter restarts BMCs. The hosts keep running.
type BMCResetter interface {
	// ResetBMC returns once the BMC has accepted the request; it does not wait for the restart.
	// Within an hour of the last reset it returns an error of class Transient.
	ResetBMC(ctx context.Context, op Op, m Machine) error
	// BMCResetAt returns the time of the last reset, including one sent by another leader. The
	// time is an upper bound: the reset did not arrive later. It is zero if no reset is known.
	BMCResetAt(ctx context.Context, m Machine) (time.Time, error)
}

// InventoryReader reads the parts of a machine. It must not change anything.
type InventoryReader interface {
	Inventory(ctx context.Context, m Machine) (*Inventory, error)
}

// Inventory lists the parts of a machine, as its BMC reports them.
type Inventory struct {
	Manufacturer string
	Model        string
	Serial       string
	BoardSerial  string // of the main board, if Serial is another one of the machine
	UUID         string
	BIOS         string // firmware version
	BMC          string // firmware version
	CPUs         []CPU
	Memory       []DIMM
	MemoryBytes  int64 // of all modules
	Disks        []Disk
	NICs         []NIC
	GPUs         []Card   // GPUs and other accelerators
	PCIe         []Card   // devices on PCI Express, including GPUs and network cards
	Traits       []string // named properties that a third party reports, e.g. HW_CPU_X86_VMX
	Missing      []string // parts that could not be read, each with the reason
	// Unread has the kinds of parts of which some or all could not be read: cpu, memory, disk, nic,
	// gpu, pcie. Parts of these kinds that were known before may still be there.
	Unread []string
}

// DropPlaceholders removes texts that vendors put into unset fields. They identify no machine and
// no part, and contradict nothing.
func (v *Inventory) DropPlaceholders() {
	texts := []*string{&v.Manufacturer, &v.Model, &v.Serial, &v.BoardSerial, &v.UUID}
	for i := range v.CPUs {
		texts = append(texts, &v.CPUs[i].Serial)
	}
	for i := range v.Memory {
		texts = append(texts, &v.Memory[i].Serial)
	}
	for i := range v.Disks {
		texts = append(texts, &v.Disks[i].Serial)
	}
	for _, cards := range [][]Card{v.GPUs, v.PCIe} {
		for i := range cards {
			texts = append(texts, &cards[i].Serial)
		}
	}
	for _, t := range texts {
		*t = known.Text(*t)
	}
}

// PartKinds returns the kinds of parts that Unread may have.
func PartKinds() []string { return []string{"cpu", "memory", "disk", "nic", "gpu", "pcie"} }

// PartState is the state of a part in an inventory. The zero value means that it is not known.
type PartState string

// States of parts. Those of network ports are PartUp and PartDown.
const (
	PartOK     PartState = "ok"
	PartFailed PartState = "failed"
	PartUp     PartState = "up"
	PartDown   PartState = "down"
)

// CPU is a processor.
type CPU struct {
	Slot    string
	Model   string
	Cores   int
	Threads int
	Serial  string
	State   PartState
}

// DIMM is a memory module.
type DIMM struct {
	Slot   string
	Bytes  int64
	Type   string // e.g. DDR5
	Serial string
	State  PartState
}

// Disk is a drive.
type Disk struct {
	Slot     string
	Model    string
	Serial   string
	Bytes    int64
	Media    string // SSD, HDD
	Firmware string
	State    PartState // failed also if a failure is predicted
}

// Card is an accelerator or a PCI Express device.
type Card struct {
	Slot     string
	Model    string
	Serial   string
	Firmware string
	Bytes    int64 // memory of an accelerator
	State    PartState
}

// NIC is a network port.
type NIC struct {
	Name string
	MAC  string // lower case, with colons
	Mbps int
	Link PartState // PartUp or PartDown
}
