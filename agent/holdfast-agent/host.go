package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"github.com/holdfast-metal/holdfast/agent/facts"
	"github.com/holdfast-metal/holdfast/agent/facts/smi"
	"github.com/holdfast-metal/holdfast/client/machine"
	"github.com/holdfast-metal/holdfast/internal/facts/known"
)

// host supplies the facts of this machine. It implements machine.Source.
type host struct {
	system
	hostname  string // overrides the machine's own
	privateIP string // overrides the detected one
	setting   string // how to set the address, for error texts: ", or set --private-ip"
	gpus      *smi.Monitor

	mu   sync.Mutex
	last facts.CPUTimes // at the last call of Metrics; zero: since boot
}

// Specs implements machine.Source.
func (h *host) Specs(context.Context) (machine.Specs, error) {
	cpus, err := facts.CPUs(h.root)
	if err != nil {
		return machine.Specs{}, err
	}
	memory, err := facts.ReadMemory(h.root)
	if err != nil {
		return machine.Specs{}, err
	}
	gpus, err := facts.GPUs(h.root)
	if err != nil {
		return machine.Specs{}, err
	}
	name := h.hostname
	if name == "" {
		if name, err = facts.Hostname(h.root); err != nil {
			return machine.Specs{}, err
		}
	}
	ip, mac, err := h.address()
	if err != nil {
		return machine.Specs{}, err
	}
	board := h.board()
	return machine.Specs{
		Hostname:      name,
		PrivateIP:     ip,
		CPUMillicores: int64(cpus) * 1000,
		MemoryMiB:     memory.TotalMiB,
		GPUCount:      len(gpus),
		Hardware: machine.Hardware{
			Vendor: board.Vendor, Model: board.Model, SerialNumber: board.Serial, SystemUUID: board.UUID,
			Arch: arch(runtime.GOARCH), BootMode: board.BootMode, MACAddress: mac,
		},
	}, nil
}

// address returns the address to register, and the MAC of its interface.
func (h *host) address() (ip, mac string, err error) {
	interfaces, err := h.interfaces()
	if err != nil {
		return "", "", err
	}
	addr, name := facts.PrivateIP(interfaces, facts.DefaultInterface(h.root))
	if h.privateIP == "" {
		if !addr.IsValid() {
			return "", "", errors.New("find the address of this machine: it has none yet: " +
				"wait for the network" + h.setting)
		}
		return addr.String(), facts.MAC(h.root, name), nil
	}
	for _, i := range interfaces {
		for _, a := range i.Addrs {
			if a.Unmap().String() == h.privateIP {
				name = i.Name
			}
		}
	}
	return h.privateIP, facts.MAC(h.root, name), nil
}

// Names of systemd credentials with DMI values that only root can read: see the unit.
const (
	credentialSerial = "dmi.serial"
	credentialUUID   = "dmi.uuid"
)

// board reads DMI, and systemd's credentials for values that this user cannot read.
func (h *host) board() facts.Board {
	b := facts.ReadBoard(h.root)
	if b.Serial == "" {
		b.Serial = known.Text(h.credential(credentialSerial))
	}
	if b.UUID == "" {
		b.UUID = strings.ToLower(known.Text(h.credential(credentialUUID)))
	}
	return b
}

func (h *host) credential(name string) string {
	dir := h.getenv("CREDENTIALS_DIRECTORY")
	if dir == "" {
		return ""
	}
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// hardware returns a value that no two machines share, or "" if none is known.
func (h *host) hardware() string {
	b := h.board()
	switch {
	case b.UUID != "":
		return "uuid:" + b.UUID
	case b.Serial != "":
		return fmt.Sprintf("serial:%s %s %s", b.Vendor, b.Model, b.Serial)
	}
	return ""
}

// Metrics implements machine.Source.
func (h *host) Metrics(context.Context) (machine.Metrics, error) {
	cpus, err := facts.CPUs(h.root)
	if err != nil {
		return machine.Metrics{}, err
	}
	memory, err := facts.ReadMemory(h.root)
	if err != nil {
		return machine.Metrics{}, err
	}
	times, err := facts.ReadCPUTimes(h.root)
	if err != nil {
		return machine.Metrics{}, err
	}
	free, err := h.freeGPUs()
	if err != nil {
		return machine.Metrics{}, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	used := times.Utilization(h.last)
	h.last = times
	return machine.Metrics{
		CPUUtilizationPct: round(used), MemoryUtilizationPct: round(memory.Utilization()),
		TotalCPUAvailable: int64(cpus) * 1000, TotalMemoryAvailable: memory.TotalMiB, FreeGPUCount: free,
	}, nil
}

// freeGPUs returns the number of GPUs that no program uses. Without nvidia-smi a GPU counts
// as free unless it is assigned to a virtual machine. The number is nil if it is unknown, because
// nvidia-smi does not answer.
func (h *host) freeGPUs() (*int, error) {
	all, err := facts.GPUs(h.root)
	if err != nil {
		return nil, err
	}
	free := 0
	if h.gpus != nil {
		seen, err := h.gpus.GPUs()
		if err != nil {
			return nil, nil //nolint:nilerr // the monitor logs it
		}
		for _, g := range seen {
			if len(g.PIDs) == 0 {
				free++
			}
		}
		free = min(free, len(all))
		return &free, nil
	}
	for _, g := range all {
		if !g.GivenAway() {
			free++
		}
	}
	return &free, nil
}

// round returns f with two decimals.
func round(f float64) float64 { return math.Round(f*100) / 100 }

// arch returns uname's name of a Go architecture.
func arch(goarch string) string {
	switch goarch {
	case "amd64":
		return "x86_64"
	case "arm64":
		return "aarch64"
	}
	return goarch
}
