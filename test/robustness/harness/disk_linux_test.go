package harness

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/test/robustness/private"
)

// TestDisk checks that a disk fills up, breaks and hangs like a real one, and works afterwards.
func TestDisk(t *testing.T) {
	if !private.Again(t) {
		return
	}
	dir := t.TempDir()
	d, err := newDisk(filepath.Join(dir, "image"), filepath.Join(dir, "mount"))
	if err != nil {
		t.Fatal(err)
	}
	kept := filepath.Join(d.Dir, "kept")
	write := func() error {
		f, err := os.Create(filepath.Join(d.Dir, "file"))
		if err != nil {
			return err
		}
		_, err = f.Write(make([]byte, 64<<10))
		return errors.Join(err, f.Sync(), f.Close())
	}
	must := func(doing string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", doing, err)
		}
	}
	must("write a file", errors.Join(os.WriteFile(kept, []byte("content"), 0o600), d.sync()))

	must("fill", d.Fill())
	if err := write(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("write to a full disk: got %v, want no space left", err)
	}
	must("empty", d.Empty())
	must("write after Empty", write())

	must("freeze", d.Freeze())
	done := make(chan error, 1)
	go func() { done <- write() }()
	timer := time.NewTimer(300 * time.Millisecond)
	defer timer.Stop()
	select {
	case err := <-done:
		t.Errorf("write to a hanging disk: got %v, want no answer", err)
		done <- nil
	case <-timer.C:
	}
	must("thaw", d.Thaw())
	must("end the hanging write", <-done)

	must("break", d.Break())
	if err := write(); !errors.Is(err, syscall.EROFS) {
		t.Errorf("write to a broken disk: got %v, want read-only file system", err)
	}
	must("repair", d.Repair())
	must("write after the repair", write())
	if b, err := os.ReadFile(kept); string(b) != "content" || err != nil {
		t.Errorf("synced file after the repair: got %q, %v", b, err)
	}

	// A disk in use is unmounted as soon as it is released. Otherwise the error names its user.
	f, err := os.Open(kept)
	must("open", err)
	if err := d.unmount(); !errors.Is(err, syscall.EBUSY) || !strings.Contains(err.Error(), kept) {
		t.Errorf("unmount with an open file: got %v, want busy and %s", err, kept)
	}
	time.AfterFunc(100*time.Millisecond, func() { _ = f.Close() })
	must("remove", d.remove(false))
}
