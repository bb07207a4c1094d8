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

// Inside reports whether this process has its own network and mounts.
func Inside() bool { return os.Getenv(mark) != "" }

// Missing returns the reason why this host cannot create such a process, or "".
func Missing() string {
	if os.Getuid() != 0 {
		return "it needs root"
	}
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		return "/dev/net/tun not found"
	}
	for _, tool := range []string{"ip", "mkfs.ext4", "e2fsck", "mount", "umount"} {
		if _, err := exec.LookPath(tool); err != nil {
			return tool + " not found (Debian: iproute2, e2fsprogs, mount)"
		}
	}
	return ""
}

// Again runs the calling test, which must not be a subtest, again in a private process. It
// returns true there, where the test continues, and false here after that process has
// ended: its output and result are then the test's. If that is not possible, the test is
// skipped. The environment is extended by more.
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
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Unshareflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS,
		Pdeathsig:    syscall.SIGKILL,
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // the kernel kills the child when the thread that started it ends
		defer runtime.UnlockOSThread()
		done <- cmd.Run()
	}()
	if err := <-done; err != nil {
		t.Error(fmt.Errorf("%s in its own process: %w", t.Name(), err))
	}
	return false
}
