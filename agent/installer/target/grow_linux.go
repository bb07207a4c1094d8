package target

import (
	"encoding/binary"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Requests of the kernel's file systems. Each one grows a mounted file system, as xfs and
// btrfs require.
const (
	ext4Resize  = 0x40086610 // EXT4_IOC_RESIZE_FS, fs/ext4/ext4.h: the new size in blocks
	xfsGeometry = 0x80705864 // XFS_IOC_FSGEOMETRY_V1, fs/xfs/libxfs/xfs_fs.h: struct xfs_fsop_geom_v1
	xfsGrow     = 0x4010586e // XFS_IOC_FSGROWFSDATA, same place: struct xfs_growfs_data
	btrfsResize = 0x50009403 // BTRFS_IOC_RESIZE, linux/btrfs.h: struct btrfs_ioctl_vol_args
)

// growRoot grows the mounted file system to the size of its partition, in bytes.
func growRoot(size uint64, kind string) error {
	dir, err := os.Open(mountPoint)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	switch kind {
	case "ext4":
		return growExt4(dir, size)
	case "xfs":
		return growXFS(dir, size)
	case "btrfs":
		return growBtrfs(dir)
	}
	return nil
}

func growExt4(dir *os.File, size uint64) error {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(dir.Fd()), &st); err != nil {
		return fmt.Errorf("get the size of the file system: %w", err)
	}
	blocks := size / uint64(st.Bsize)
	if blocks <= st.Blocks {
		return nil
	}
	if err := ioctl(dir, ext4Resize, unsafe.Pointer(&blocks)); err != nil { //nolint:gosec // an ioctl takes a pointer
		return fmt.Errorf("grow the file system to %d blocks: %w", blocks, err)
	}
	return nil
}

// growXFS passes the maximum share of inodes (imaxpct) unchanged, because the kernel sets
// it together with the size.
func growXFS(dir *os.File, size uint64) error {
	var geometry [112]byte
	//nolint:gosec // an ioctl takes a pointer
	if err := ioctl(dir, xfsGeometry, unsafe.Pointer(&geometry)); err != nil {
		return fmt.Errorf("get the size of the file system: %w", err)
	}
	blockSize, share := binary.NativeEndian.Uint32(geometry[0:]), binary.NativeEndian.Uint32(geometry[28:])
	has := binary.NativeEndian.Uint64(geometry[32:])
	if blockSize == 0 {
		return fmt.Errorf("get the size of the file system: its block size is zero")
	}
	want := struct {
		blocks uint64
		share  uint32
		_      uint32
	}{blocks: size / uint64(blockSize), share: share}
	if want.blocks <= has {
		return nil
	}
	if err := ioctl(dir, xfsGrow, unsafe.Pointer(&want)); err != nil { //nolint:gosec // an ioctl takes a pointer
		return fmt.Errorf("grow the file system to %d blocks: %w", want.blocks, err)
	}
	return nil
}

// growBtrfs grows the file system to the size of its only device.
func growBtrfs(dir *os.File) error {
	var args struct {
		_    int64
		name [4088]byte
	}
	copy(args.name[:], "max")
	if err := ioctl(dir, btrfsResize, unsafe.Pointer(&args)); err != nil { //nolint:gosec // an ioctl takes a pointer
		return fmt.Errorf("grow the file system: %w", err)
	}
	return nil
}

func ioctl(f *os.File, request uint, arg unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), uintptr(request), uintptr(arg)); errno != 0 {
		return errno
	}
	return nil
}
