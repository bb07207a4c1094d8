package private

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

const mark = "HOLDFAST_TEST_PRIVATE"

// Inside reports whether this process has a network and mounts of its own.
func Inside() bool { return os.Getenv(mark) != "" }

// Missing reports what keeps this host from giving a process those; "" if nothing does.
func Missing() string {
	if os.Getuid() != 0 {
		return "it needs root"
	}
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		return "there is no /dev/net/tun"
	}
	for _, tool := range []string{"ip", "mkfs.ext4", "e2fsck", "mount", "umount"} {
		if _, err := exec.LookPath(tool); err != nil {
			return "there is no " + tool + " (Debian: iproute2, e2fsprogs, mount)"
		}
	}
	return ""
}

// Again runs the calling test, which must not be a subtest, once more in a process of its own. It
// returns true there, where the test goes on, and false here when that has ended: its output and
// its verdict are then the test's. Where it cannot be done the test is skipped. More is added to
// the environment.
func Again(t *testing.T, more ...string) bool {
	t.Helper()
	if Inside() {
		return true
	}
	if m := Missing(); m != "" {
		t.Skip("no network namespaces here: " + m)
	}
	args := []string{"-test.run=^" + t.Name() + "$", "-test.v", "-test.count=1"}
	for _, a := range os.Args[1:] {
		if strings.HasPrefix(a, "-test.timeout") || strings.HasPrefix(a, "-test.short") {
			args = append(args, a)
		}
	}
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(append(os.Environ(), mark+"=1"), more...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // the kernel kills the child when the thread that started it ends
		defer runtime.UnlockOSThread()
		done <- cmd.Run()
	}()
	if err := <-done; err != nil {
		t.Error(fmt.Errorf("%s in a process of its own: %w", t.Name(), err))
	}
	return false
}
