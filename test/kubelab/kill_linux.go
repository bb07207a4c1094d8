//go:build linux

package kubelab

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// kill ends a process if it still runs a program: another one may have its number by now.
func kill(pid, program string) {
	n, err := strconv.Atoi(pid)
	if err != nil {
		return
	}
	if runs, err := os.Readlink(filepath.Join("/proc", pid, "exe")); err == nil && runs == program {
		_ = syscall.Kill(n, syscall.SIGKILL)
	}
}
