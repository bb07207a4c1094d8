package facts

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

const (
	pciDevices    = "sys/bus/pci/devices"
	pciDisplay    = 0x03   // the base class of display controllers: VGA and 3D
	pciVendorNVDA = 0x10de // NVIDIA
)

// GPU is an NVIDIA GPU on the PCI bus.
type GPU struct {
	Address string // on the bus, such as 0000:01:00.0
	Device  string // device id, such as 0x2684
	Driver  string // nvidia, nouveau, vfio-pci …; empty if it has none
}

// GivenAway reports whether the GPU is assigned to a virtual machine.
func (g GPU) GivenAway() bool { return strings.HasPrefix(g.Driver, "vfio") }

// GPUs returns the NVIDIA GPUs, ordered by address. Virtual functions are not counted in
// addition to their GPU.
func GPUs(fsys fs.FS) ([]GPU, error) {
	entries, err := fs.ReadDir(fsys, pciDevices)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // no PCI bus
	}
	if err != nil {
		return nil, fmt.Errorf("list the GPUs: %w", err)
	}
	var gpus []GPU
	for _, e := range entries {
		dir := path.Join(pciDevices, e.Name())
		if hex(line(fsys, dir+"/vendor")) != pciVendorNVDA || hex(line(fsys, dir+"/class"))>>16 != pciDisplay {
			continue
		}
		if _, err := fs.Stat(fsys, dir+"/physfn"); err == nil {
			continue
		}
		gpus = append(gpus, GPU{Address: e.Name(), Device: line(fsys, dir+"/device"), Driver: driver(fsys, dir)})
	}
	return gpus, nil
}

func driver(fsys fs.FS, dir string) string {
	to, err := fs.ReadLink(fsys, dir+"/driver")
	if err != nil {
		return ""
	}
	return path.Base(to)
}

// hex parses "0x030200". It returns zero if s is not a number.
func hex(s string) uint64 {
	n, err := strconv.ParseUint(strings.TrimPrefix(s, "0x"), 16, 32)
	if err != nil {
		return 0
	}
	return n
}
