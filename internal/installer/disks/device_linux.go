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

// Requests of linux/fs.h that golang.org/x/sys does not name.
const (
	blkZeroOut    = 0x127f
	blkDiscard    = 0x1277
	blkSecDiscard = 0x127d
)

// step is how much is erased with one call, in bytes: it bounds how long a call cannot be stopped.
const step = 1 << 30

// Device is a disk that was opened, alone: the kernel refuses it when it is mounted or part of
// something.
type Device struct {
	*os.File
	size   uint64
	sector int
}

// Open opens a disk below /dev to write to it.
func Open(name string) (*Device, error) {
	f, err := os.OpenFile("/dev/"+name, os.O_RDWR|unix.O_EXCL, 0)
	if err != nil {
		return nil, fmt.Errorf("open the disk: %w", err)
	}
	size, err := f.Seek(0, 2)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("find out how large %s is: %w", name, err), f.Close())
	}
	sector, err := unix.IoctlGetInt(int(f.Fd()), unix.BLKSSZGET)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("ask %s for its sectors: %w", name, err), f.Close())
	}
	return &Device{File: f, size: uint64(size), sector: sector}, nil
}

// SectorSize is that of a logical sector, in bytes: what the disk counts in.
func (d *Device) SectorSize() int { return d.sector }

// Size is in bytes.
func (d *Device) Size() uint64 { return d.size }

// ioctl calls a request whose argument is a pointer.
func (d *Device) ioctl(request uint, arg unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, d.Fd(), uintptr(request), uintptr(arg)); errno != 0 {
		return errno
	}
	return nil
}

// each calls a request for the whole disk, range by range.
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

// Erase makes the disk unreadable, by the strongest means that it knows, and then reads as zeros.
// It says which means did it, and what did not work. The boot sectors go first: a disk that is half
// erased must not boot.
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
	// None of these promises what a read gives afterwards, and a discard is a hint only.
	if err := d.each(ctx, blkZeroOut); err != nil {
		return "", errors.Join(append(tried, fmt.Errorf("overwrite with zeros: %w", err))...)
	}
	if err := d.Sync(); err != nil {
		return "", fmt.Errorf("overwrite with zeros: %w", err)
	}
	return method + "zeros", nil
}

// Reread makes the kernel look at the partition table again.
func (d *Device) Reread(ctx context.Context) error {
	for {
		err := d.ioctl(unix.BLKRRPART, nil)
		if err == nil {
			return nil
		}
		// Something looks at the disk for a moment, as udev would.
		select {
		case <-ctx.Done():
			return fmt.Errorf("read the partition table anew: %w", err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
