package bmc

import (
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc/internal/access"
)

// The types of all providers.
type (
	// Inventory lists the parts of a machine.
	Inventory = providers.Inventory
	// CPU is a processor.
	CPU = providers.CPU
	// DIMM is a memory module.
	DIMM = providers.DIMM
	// Disk is a drive.
	Disk = providers.Disk
	// NIC is a network port.
	NIC = providers.NIC
	// Card is an accelerator or a PCI Express device.
	Card = providers.Card
	// Event is an entry of the event log.
	Event = providers.Event
)

// Progress is the boot progress of a machine, as its BMC reports it.
type Progress = access.Progress
