package disks

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Requests of linux/fs.h that golang.org/x/sys lacks.
const (
	blkZeroOut    = 0x127f
	blkDiscard    = 0x1277
	blkSecDiscard = 0x127d
)

// step is the number of bytes erased by one call. It bounds how long a call cannot be
// interrupted.
const step = 1 << 30

// Device is an exclusively opened disk. The kernel refuses to open one that is mounted or
// part of another device.
type Device struct {
	*os.File
	size   uint64
	sector int
}

// Open opens a disk in /dev for writing.
func Open(name string) (*Device, error) {
	f, err := os.OpenFile("/dev/"+name, os.O_RDWR|unix.O_EXCL, 0)
	if err != nil {
		return nil, fmt.Errorf("open the disk: %w", err)
	}
	size, err := f.Seek(0, 2)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("get the size of %s: %w", name, err), f.Close())
	}
	sector, err := unix.IoctlGetInt(int(f.Fd()), unix.BLKSSZGET)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("get the sector size of %s: %w", name, err), f.Close())
	}
	return &Device{File: f, size: uint64(size), sector: sector}, nil
}

// SectorSize returns the size of a logical sector, in bytes.
func (d *Device) SectorSize() int { return d.sector }

// Size returns the size in bytes.
func (d *Device) Size() uint64 { return d.size }

// ioctl makes a request whose argument is a pointer.
func (d *Device) ioctl(request uint, arg unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, d.Fd(), uintptr(request), uintptr(arg)); errno != 0 {
		return errno
	}
	return nil
}

// each makes a request for the whole disk, range by range.
func (d *Device) each(ctx context.Context, request uint) error {
	for at := uint64(0); at < d.size; at += step {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		span := [2]uint64{at, min(step, d.size-at)}
		if err := d.ioctl(request, unsafe.Pointer(&span)); err != nil { //nolint:gosec // an ioctl takes a pointer
			return err
		}
	}
	return nil
}

// Erase makes the old data unreadable by the strongest method that the disk supports, and
// overwrites it with zeros. It returns the methods that succeeded. The boot sectors are
// erased first, so that a half-erased disk does not boot.
func (d *Device) Erase(ctx context.Context) (method string, err error) {
	front := [2]uint64{0, min(1<<20, d.size)}
	if err := d.ioctl(blkZeroOut, unsafe.Pointer(&front)); err != nil { //nolint:gosec // an ioctl takes a pointer
		return "", fmt.Errorf("overwrite the boot sectors: %w", err)
	}
	var tried []error
	for _, way := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"nvme-format", d.formatNVMe},
		{"secure-discard", func(ctx context.Context) error { return d.each(ctx, blkSecDiscard) }},
		{"discard", func(ctx context.Context) error { return d.each(ctx, blkDiscard) }},
	} {
		if err := way.do(ctx); err != nil {
			if ctx.Err() != nil {
				return "", context.Cause(ctx)
			}
			tried = append(tried, fmt.Errorf("%s: %w", way.name, err))
			continue
		}
		method = way.name + "+"
		break
	}
	// None of these guarantees zeros when the disk is read, and a discard is only a hint.
	if err := d.each(ctx, blkZeroOut); err != nil {
		return "", errors.Join(append(tried, fmt.Errorf("overwrite with zeros: %w", err))...)
	}
	if err := d.Sync(); err != nil {
		return "", fmt.Errorf("overwrite with zeros: %w", err)
	}
	return method + "zeros", nil
}

// Reread makes the kernel read the partition table again.
func (d *Device) Reread(ctx context.Context) error {
	for {
		err := d.ioctl(unix.BLKRRPART, nil)
		if err == nil {
			return nil
		}
		// Another program may hold the disk briefly, as udev does.
		select {
		case <-ctx.Done():
			return fmt.Errorf("reread the partition table: %w", err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
