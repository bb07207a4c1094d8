package main

import (
	"context"
	"io"
	"log/slog"
	"net"
	"runtime"

	"github.com/holdfast-metal/holdfast/cmd/holdfast-agent/facts"
	"github.com/holdfast-metal/holdfast/cmd/holdfast-agent/install"
	"github.com/holdfast-metal/holdfast/cmd/holdfast-agent/install/diskrule"
	"github.com/holdfast-metal/holdfast/cmd/holdfast-agent/install/disks"
	"github.com/holdfast-metal/holdfast/cmd/holdfast-agent/install/peers"
	"github.com/holdfast-metal/holdfast/cmd/holdfast-agent/install/target"
)

// bareMachine is this machine, as the installer sees it. It implements install.Machine and
// install.Unpacker.
type bareMachine struct {
	host
	log *slog.Logger
}

// Disks implements install.Machine.
func (m *bareMachine) Disks() ([]diskrule.Disk, error) { return disks.List(m.root) }

// Look implements install.Machine. What cannot be found out is left out: an inventory must not keep
// a machine from being installed.
func (m *bareMachine) Look() (peers.Inventory, string) {
	board := m.board()
	inv := peers.Inventory{
		Vendor: board.Vendor, Model: board.Model, SerialNumber: board.Serial, SystemUUID: board.UUID,
		Arch: arch(runtime.GOARCH), BootMode: board.BootMode,
	}
	if cpus, err := facts.CPUs(m.root); err == nil {
		inv.CPUMillicores = int64(cpus) * 1000
	}
	if memory, err := facts.ReadMemory(m.root); err == nil {
		inv.MemoryMiB = memory.TotalMiB
	}
	if gpus, err := facts.GPUs(m.root); err == nil {
		inv.GPUCount = len(gpus)
	}
	if all, err := net.Interfaces(); err == nil {
		for _, i := range all {
			if i.Flags&net.FlagLoopback == 0 && len(i.HardwareAddr) > 0 {
				inv.NICs = append(inv.NICs, peers.NIC{Name: i.Name, MAC: i.HardwareAddr.String()})
			}
		}
	}
	ip, _, err := m.address()
	if err != nil {
		m.log.Warn("the address of this machine is not known", "error", err)
	}
	return inv, ip
}

// Open implements install.Machine.
func (m *bareMachine) Open(name string) (install.Disk, error) { return disks.Open(name) }

// CanUnpack implements install.Unpacker.
func (m *bareMachine) CanUnpack(disk string) error { return target.CanUnpack(disk) }

// Unpack implements install.Unpacker.
func (m *bareMachine) Unpack(ctx context.Context, disk string, archive io.Reader) error {
	return target.Unpack(ctx, disk, archive, m.log)
}

// Finish implements install.Machine.
func (m *bareMachine) Finish(ctx context.Context, disk string, o peers.Order) ([]string, error) {
	return target.Finish(ctx, disk, o, m.log)
}
