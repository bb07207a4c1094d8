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

// A disk fills up, breaks and hangs as real ones do, and is itself again afterwards.
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
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	must("keep a file", errors.Join(os.WriteFile(kept, []byte("content"), 0o600), d.sync()))

	must("fill", d.Fill())
	if err := write(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a write to a full disk: %v, want no space left", err)
	}
	must("empty", d.Empty())
	must("a write with room again", write())

	must("freeze", d.Freeze())
	done := make(chan error, 1)
	go func() { done <- write() }()
	timer := time.NewTimer(300 * time.Millisecond)
	defer timer.Stop()
	select {
	case err := <-done:
		t.Errorf("a write to a disk that hangs: %v", err)
		done <- nil
	case <-timer.C:
	}
	must("thaw", d.Thaw())
	must("the write that hung", <-done)

	must("break", d.Break())
	if err := write(); !errors.Is(err, syscall.EROFS) {
		t.Errorf("a write to a broken disk: %v, want read-only file system", err)
	}
	must("repair", d.Repair())
	must("a write after the repair", write())
	if b, err := os.ReadFile(kept); string(b) != "content" || err != nil {
		t.Errorf("after the repair a file that was synced has %q, %v", b, err)
	}

	// A disk in use is unmounted as soon as it is released, and otherwise the error says by what.
	f, err := os.Open(kept)
	must("open", err)
	if err := d.unmount(); !errors.Is(err, syscall.EBUSY) || !strings.Contains(err.Error(), kept) {
		t.Errorf("unmount with an open file: %v, want busy and %s", err, kept)
	}
	time.AfterFunc(100*time.Millisecond, func() { _ = f.Close() })
	must("remove", d.remove(false))
}
