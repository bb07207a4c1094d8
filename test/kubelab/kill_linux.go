//go:build linux

package kubelab

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// kill kills a process if it still runs the program: its id may have been reused.
func kill(pid, program string) {
	n, err := strconv.Atoi(pid)
	if err != nil {
		return
	}
	if runs, err := os.Readlink(filepath.Join("/proc", pid, "exe")); err == nil && runs == program {
		_ = syscall.Kill(n, syscall.SIGKILL)
	}
}
