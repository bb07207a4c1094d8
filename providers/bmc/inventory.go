package bmc

import (
	"time"

	"github.com/holdfast-metal/holdfast/providers"
)

// What a BMC tells, as all providers word it.
type (
	// Inventory is what is in a machine.
	Inventory = providers.Inventory
	// CPU is a processor.
	CPU = providers.CPU
	// DIMM is a memory module.
	DIMM = providers.DIMM
	// Disk is a drive.
	Disk = providers.Disk
	// NIC is a network port.
	NIC = providers.NIC
	// Card is an accelerator, or a device on PCI Express.
	Card = providers.Card
	// Event is an entry of the event log.
	Event = providers.Event
)

// Progress is how far a machine has booted, as its BMC sees it.
type Progress struct {
	State string    // BootProgressTypes of the ComputerSystem schema, e.g. OSRunning; empty if the BMC does not tell
	At    time.Time // since when
}
