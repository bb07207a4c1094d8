//go:build linux

package efi

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/holdfast-metal/holdfast/agent/installer/table"
)

// enterIn is the environment variable of the process that dies while it enters a loader.
const enterIn = "EFI_TEST_ENTER_IN"

// TestEnterHelper is the process that dies.
func TestEnterHelper(t *testing.T) {
	dir := os.Getenv(enterIn)
	if dir == "" {
		t.Skip("runs in TestKilledBetween")
	}
	name, err := Enter(dir, loader())
	t.Fatalf("Enter returned instead of being killed: %s, %v", name, err)
}

func loader() Loader {
	return Loader{table.System{Partition: 2, Start: 4096, Count: 524288, GPT: true, ID: [16]byte{1, 2, 3}},
		`\EFI\BOOT\BOOTX64.EFI`}
}

// An installer that dies between the boot entry and the boot order leaves an entry that is never
// booted. The next installer reuses it.
func TestKilledBetween(t *testing.T) {
	dir := t.TempDir()
	other := []byte{1, 0, 0, 0, 4, 0, 'P', 0, 0, 0, 0x7f, 0xff, 4, 0}
	for name, data := range map[string][]byte{"Boot0000": other, "Boot0001": other, "BootCurrent": order(1)} {
		if err := write(dir, name, data); err != nil {
			t.Fatal(err)
		}
	}
	// The boot order is a pipe: it returns the order once, and a writer blocks until it is read,
	// which never happens.
	pipe := filepath.Join(dir, "BootOrder"+global)
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestEnterHelper$", "-test.timeout=2m")
	cmd.Env = append(os.Environ(), enterIn+"="+dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // killed
	}()
	dies := func() {
		_ = cmd.Process.Kill() // it may have ended by itself, which is checked
		<-ended
	}
	until(t, dies, "the read of the order", func() error {
		fd, err := unix.Open(pipe, unix.O_WRONLY|unix.O_NONBLOCK, 0)
		if err != nil {
			return err // no reader yet
		}
		if _, err := unix.Write(fd, append([]byte{7, 0, 0, 0}, order(1, 0)...)); err != nil {
			t.Error(err)
		}
		return unix.Close(fd)
	})
	until(t, dies, "the entry", func() error {
		got, err := read(dir, "Boot0002")
		if err == nil && !cmp.Equal(got, loader().option()) {
			err = fmt.Errorf("entry has %d bytes", len(got))
		}
		return err
	})
	dies()
	if err := os.Remove(pipe); err != nil {
		t.Fatal(err)
	}
	if err := write(dir, "BootOrder", order(1, 0)); err != nil { // unchanged
		t.Fatal(err)
	}

	name, err := Enter(dir, loader())
	if err != nil || name != "Boot0002" {
		t.Errorf("next attempt: got %s, %v, want Boot0002", name, err)
	}
	if got, err := read(dir, "BootOrder"); err != nil || !cmp.Equal(got, order(1, 2, 0)) {
		t.Errorf("boot order: got %x, %v, want %x", got, err, order(1, 2, 0))
	}
	found, err := filepath.Glob(filepath.Join(dir, "Boot0*"))
	if err != nil || len(found) != 3 {
		t.Errorf("entries: got %v, %v, want two of others and one", found, err)
	}
}

func until(t *testing.T, otherwise func(), what string, cond func() error) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; <-time.After(10 * time.Millisecond) {
		err := cond()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			otherwise()
			t.Fatalf("wait for %s: %v", what, err)
		}
	}
}
