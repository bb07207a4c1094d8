package target

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A loop device whose file has no space fails when cached data is flushed. Neither write nor
// unmount reports that.
func TestMountedReportsWriteErrors(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("NOT TESTED: mounting requires root")
	}
	dir := t.TempDir()
	small, point := filepath.Join(dir, "small"), filepath.Join(dir, "point")
	if err := os.Mkdir(small, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", small, "tmpfs", 0, "size=8m"); err != nil {
		t.Skipf("NOT TESTED: cannot mount here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(small, 0) })
	file := filepath.Join(small, "disk")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, 64<<20); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), mke2fs, "-q", "-F", "-t", "ext4", "-J", "size=4",
		file).CombinedOutput(); err != nil {
		t.Skipf("NOT TESTED: run %s: %v: %s", mke2fs, err, out)
	}
	out, err := exec.CommandContext(t.Context(), "losetup", "--find", "--show", file).CombinedOutput()
	if err != nil {
		t.Skipf("NOT TESTED: no loop device here: %v: %s", err, out)
	}
	dev := strings.TrimSpace(string(out))
	t.Cleanup(func() { _ = exec.Command("losetup", "--detach", dev).Run() }) //nolint:noctx // the test's context is over by then

	write := func(size int) error {
		return mounted(dev, point, "ext4", 0,
			func() error { return os.WriteFile(filepath.Join(point, "file"), bytes.Repeat([]byte{1}, size), 0o600) })
	}
	if err := write(1 << 20); err != nil {
		t.Errorf("write that fits: %v", err)
	}
	if err := write(32 << 20); err == nil || !strings.Contains(err.Error(), "the disk failed") {
		t.Errorf("write that does not fit: got %v, want an error", err)
	}
}
