package disks

import (
	"context"
	"encoding/binary"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Requests of linux/nvme_ioctl.h, and commands of the NVM Express Base Specification 2.0.
const (
	nvmeID       = 0x4e40     // NVME_IOCTL_ID
	nvmeAdminCmd = 0xc0484e41 // NVME_IOCTL_ADMIN_CMD
	nvmeIdentify = 0x06       // §5.17
	nvmeFormat   = 0x80       // §5.14
	userData     = 1          // secure erase setting: all user data
	// Data structures that Identify returns (CNS): one namespace, the controller, the
	// namespaces attached to it, and all allocated namespaces.
	cnsNamespace  = 0x00
	cnsController = 0x01
	cnsActive     = 0x02
	cnsAllocated  = 0x10
	formatWait    = 4 * 60 * 60 * 1000
)

// nvmeCommand is struct nvme_admin_cmd.
type nvmeCommand struct {
	opcode, flags         uint8
	_                     uint16
	nsid, cdw2, cdw3      uint32
	metadata, addr        uint64
	metadataLen, dataLen  uint32
	cdw10, cdw11, cdw12   uint32
	cdw13, cdw14, cdw15   uint32
	timeoutMillis, result uint32
}

// formatNVMe formats the namespace with its current sector size and erases all user data.
// It fails if the disk is not NVMe, or if the format would affect other namespaces.
func (d *Device) formatNVMe(context.Context) error {
	id, _, errno := unix.Syscall(unix.SYS_IOCTL, d.Fd(), nvmeID, 0)
	if errno != 0 {
		return fmt.Errorf("not an NVMe namespace: %w", errno)
	}
	nsid := uint32(id)
	controller, err := d.identify(0, cnsController)
	if err != nil {
		return fmt.Errorf("identify the controller: %w", err)
	}
	list := uint32(cnsActive)
	if managesNamespaces(controller) {
		list = cnsAllocated
	}
	there, err := d.identify(0, list)
	if err != nil {
		return fmt.Errorf("list the namespaces: %w", err)
	}
	if err := alone(controller, there, nsid); err != nil {
		return err
	}
	page, err := d.identify(nsid, cnsNamespace)
	if err != nil {
		return fmt.Errorf("identify the namespace: %w", err)
	}
	if binary.LittleEndian.Uint64(page) == 0 {
		return fmt.Errorf("identify the namespace: its size is zero")
	}
	flbas := uint32(page[26]) // the index of its format: bits 3:0, and 6:5 as the higher bits
	return d.admin(&nvmeCommand{
		opcode:        nvmeFormat,
		nsid:          nsid,
		cdw10:         flbas&0xf | (flbas>>5&3)<<12 | userData<<9,
		timeoutMillis: formatWait,
	})
}

// managesNamespaces reports whether the controller lists namespaces that are not attached
// to it. A format may affect these too.
func managesNamespaces(controller []byte) bool {
	return binary.LittleEndian.Uint16(controller[256:])&(1<<3) != 0 // OACS
}

// alone returns an error if a format of the namespace would format or erase others, which
// no rule has selected. It checks the controller's Format NVM Attributes and the list of
// its namespaces.
func alone(controller, there []byte, nsid uint32) error {
	const formatsAll, erasesAll = 1, 2
	fna := controller[524]
	if fna&(formatsAll|erasesAll) == 0 {
		return nil
	}
	for ; len(there) >= 4; there = there[4:] {
		other := binary.LittleEndian.Uint32(there)
		if other == 0 {
			break // the end of the list
		}
		if other != nsid {
			return fmt.Errorf("a format of namespace %d would also erase namespace %d of this controller (FNA %#x)",
				nsid, other, fna)
		}
	}
	return nil
}

// identify reads one of the controller's data structures.
func (d *Device) identify(nsid, cns uint32) ([]byte, error) {
	page := make([]byte, 4096)
	c := nvmeCommand{
		opcode:  nvmeIdentify,
		nsid:    nsid,
		addr:    uint64(uintptr(unsafe.Pointer(&page[0]))), //nolint:gosec // kept alive below
		dataLen: uint32(len(page)),
		cdw10:   cns,
	}
	err := d.admin(&c)
	runtime.KeepAlive(page)
	return page, err
}

// admin sends a command. The kernel returns the disk's status as a positive number.
func (d *Device) admin(c *nvmeCommand) error {
	//nolint:gosec // an ioctl takes a pointer
	status, _, errno := unix.Syscall(unix.SYS_IOCTL, d.Fd(), nvmeAdminCmd, uintptr(unsafe.Pointer(c)))
	switch {
	case errno != 0:
		return errno
	case status != 0:
		return fmt.Errorf("the disk refused the command with status %#x", status)
	}
	return nil
}
