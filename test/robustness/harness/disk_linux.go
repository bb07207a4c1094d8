package harness

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// diskMiB is the size of a peer's disk. After an hour of the soak test the state has 150
// MiB, with two snapshots of it and a third being written. The image is sparse and uses
// only what is written.
const diskMiB = 1024

// Disk is the disk of one peer: a separate ext4 file system in a file, so that it really
// fills up, hangs and breaks alone. Only this process and its children see its mount.
type Disk struct {
	Dir   string
	image string
}

func newDisk(image, dir string) (*Disk, error) {
	d := &Disk{Dir: dir, image: image}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := command("truncate", "-s", fmt.Sprintf("%dM", diskMiB), image); err != nil {
		return nil, err
	}
	if err := command("mkfs.ext4", "-q", "-F", "-m", "0", "-E", "lazy_itable_init=0", image); err != nil {
		return nil, err
	}
	return d, d.mount()
}

func command(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

func (d *Disk) mount() error {
	return command("mount", "-o", "loop,errors=remount-ro", d.image, d.Dir)
}

// busyTime bounds the wait until no process has open files on the disk. A child of this process
// has copies of its open files until it calls exec.
const busyTime = 5 * time.Second

// unmount unmounts the disk. If that fails, the error lists the processes that use it.
func (d *Disk) unmount() error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(busyTime); ; <-tick.C {
		err := unix.Unmount(d.Dir, 0)
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) || time.Now().After(deadline) {
			return fmt.Errorf("unmount %s: %w; in use by %q", d.Dir, err, users(d.Dir))
		}
	}
}

// users lists the processes that have a file or a directory below dir open or mapped.
func users(dir string) []string {
	var out []string
	procs, _ := filepath.Glob("/proc/[0-9]*")
	for _, proc := range procs {
		links, _ := filepath.Glob(proc + "/fd/*")
		for _, link := range append(links, proc+"/cwd", proc+"/root") {
			if to, err := os.Readlink(link); err == nil && strings.HasPrefix(to, dir) {
				out = append(out, link+" -> "+to)
			}
		}
		maps, _ := os.ReadFile(proc + "/maps")
		for line := range strings.Lines(string(maps)) {
			if _, name, ok := strings.Cut(line, dir); ok {
				out = append(out, proc+" maps "+strings.TrimSpace(name))
			}
		}
	}
	return out
}

// sync writes everything to the disk, so that only later writes of peers can be lost.
func (d *Disk) sync() error {
	f, err := os.Open(d.Dir)
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(f.Fd())), f.Close())
}

func (d *Disk) ballast() string { return filepath.Join(d.Dir, "ballast") }

// Fill fills the disk.
func (d *Disk) Fill() error {
	f, err := os.OpenFile(d.ballast(), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("fill %s: %w", d.Dir, err)
	}
	// Large pieces first, then small ones.
	size := int64(0)
	for piece := int64(16 << 20); piece >= 4096; {
		err := unix.Fallocate(int(f.Fd()), 0, size, piece)
		switch {
		case err == nil:
			size += piece
		case errors.Is(err, unix.ENOSPC):
			piece /= 2
		case !errors.Is(err, unix.EINTR):
			return errors.Join(fmt.Errorf("fill %s: %w", d.Dir, err), f.Close())
		}
	}
	return f.Close()
}

// Empty undoes Fill.
func (d *Disk) Empty() error { return os.Remove(d.ballast()) }

// Freeze makes every write hang until Thaw, including the exit of writing processes.
func (d *Disk) Freeze() error { return d.ioctl("freeze", 0xc0045877) }

// Thaw undoes Freeze.
func (d *Disk) Thaw() error { return d.ioctl("thaw", 0xc0045878) }

func (d *Disk) ioctl(what string, req uint) error {
	f, err := os.Open(d.Dir)
	if err != nil {
		return fmt.Errorf("%s %s: %w", what, d.Dir, err)
	}
	defer func() { _ = f.Close() }()
	if err := unix.IoctlSetInt(int(f.Fd()), req, 0); err != nil {
		return fmt.Errorf("%s %s: %w", what, d.Dir, err)
	}
	return nil
}

// Break makes the file system find an error in itself: it becomes read-only while files are
// open.
func (d *Disk) Break() error {
	loop, err := d.device()
	if err != nil {
		return err
	}
	if err := os.WriteFile("/sys/fs/ext4/"+loop+"/trigger_fs_error", []byte("1"), 0); err != nil {
		return fmt.Errorf("break %s: %w", d.Dir, err)
	}
	return nil
}

// device returns the mounted loop device.
func (d *Disk) device() (string, error) {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); len(f) > 1 && f[1] == d.Dir {
			return filepath.Base(f[0]), nil
		}
	}
	return "", fmt.Errorf("%s is not mounted", d.Dir)
}

// Repair undoes Break, as an operator would: unmount, fsck, mount. No process may have
// files open there.
func (d *Disk) Repair() error {
	if err := d.unmount(); err != nil {
		return err
	}
	err := command("e2fsck", "-f", "-y", d.image)
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() <= 1 { // 1: errors were corrected
		err = nil
	}
	return errors.Join(err, d.mount())
}

// FlipBytes changes some bytes of a file, in place, from an offset on.
func FlipBytes(name string, offset int64, n int) error {
	return change(name, offset, n, func(b byte) byte { return b ^ 0x5a })
}

// ZeroBytes zeroes some bytes of a file, in place, from an offset on.
func ZeroBytes(name string, offset int64, n int) error {
	return change(name, offset, n, func(byte) byte { return 0 })
}

func change(name string, offset int64, n int, to func(byte) byte) error {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	b := make([]byte, n)
	m, err := f.ReadAt(b, offset)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	for i := range b[:m] {
		b[i] = to(b[i])
	}
	if err == nil {
		_, err = f.WriteAt(b[:m], offset)
	}
	return errors.Join(err, f.Close())
}
