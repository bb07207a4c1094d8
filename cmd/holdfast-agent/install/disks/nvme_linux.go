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
	formatWait   = 4 * 60 * 60 * 1000
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

// formatNVMe formats the namespace with its present sector size and erases all user data. It fails on what is no NVMe disk.
func (d *Device) formatNVMe(context.Context) error {
	nsid, _, errno := unix.Syscall(unix.SYS_IOCTL, d.Fd(), nvmeID, 0)
	if errno != 0 {
		return fmt.Errorf("it is no NVMe namespace: %w", errno)
	}
	page := make([]byte, 4096)
	identify := nvmeCommand{opcode: nvmeIdentify, nsid: uint32(nsid), addr: uint64(uintptr(unsafe.Pointer(&page[0]))), dataLen: uint32(len(page))} //nolint:gosec // the command holds the address; page is kept alive below
	err := d.admin(&identify)
	runtime.KeepAlive(page)
	if err != nil {
		return fmt.Errorf("identify the namespace: %w", err)
	}
	if binary.LittleEndian.Uint64(page) == 0 {
		return fmt.Errorf("identify the namespace: it has no size")
	}
	flbas := uint32(page[26]) // which format it has: bits 3:0, and 6:5 as the higher ones
	return d.admin(&nvmeCommand{opcode: nvmeFormat, nsid: uint32(nsid), cdw10: flbas&0xf | (flbas>>5&3)<<12 | userData<<9, timeoutMillis: formatWait})
}

// admin sends a command. The kernel gives the status of the disk as a positive number.
func (d *Device) admin(c *nvmeCommand) error {
	status, _, errno := unix.Syscall(unix.SYS_IOCTL, d.Fd(), nvmeAdminCmd, uintptr(unsafe.Pointer(c))) //nolint:gosec // an ioctl takes a pointer
	switch {
	case errno != 0:
		return errno
	case status != 0:
		return fmt.Errorf("the disk refused it with status %#x", status)
	}
	return nil
}
