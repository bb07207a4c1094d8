package main

import (
	"context"
	"io"
	"log/slog"
	"net"
	"runtime"

	"github.com/holdfast-metal/holdfast/agent/facts"
	"github.com/holdfast-metal/holdfast/agent/installer"
	"github.com/holdfast-metal/holdfast/agent/installer/disks"
	"github.com/holdfast-metal/holdfast/agent/installer/peers"
	"github.com/holdfast-metal/holdfast/agent/installer/target"
	"github.com/holdfast-metal/holdfast/internal/diskrule"
)

// bareMachine is this machine for the installer. It implements installer.Machine and
// installer.Unpacker.
type bareMachine struct {
	host
	log *slog.Logger
}

// Disks implements installer.Machine.
func (m *bareMachine) Disks() ([]diskrule.Disk, error) { return disks.List(m.root) }

// Inventory implements installer.Machine. Facts that cannot be read are left out, because an
// incomplete inventory must not block the installation.
func (m *bareMachine) Inventory() (peers.Inventory, string) {
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
		m.log.Warn("cannot find the address of this machine", "error", err)
	}
	return inv, ip
}

// Open implements installer.Machine.
func (m *bareMachine) Open(name string) (installer.Disk, error) { return disks.Open(name) }

// CanUnpack implements installer.Unpacker.
func (m *bareMachine) CanUnpack(disk string) error { return target.CanUnpack(disk) }

// Unpack implements installer.Unpacker.
func (m *bareMachine) Unpack(ctx context.Context, disk string, archive io.Reader) error {
	return target.Unpack(ctx, disk, archive, m.log)
}

// Finish implements installer.Machine.
func (m *bareMachine) Finish(ctx context.Context, disk string, o peers.Order) ([]string, error) {
	return target.Finish(ctx, disk, o, m.log)
}
