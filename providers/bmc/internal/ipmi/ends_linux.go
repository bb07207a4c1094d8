package ipmi

import (
	"errors"
	"os/exec"
	"syscall"
)

// endWithThread makes a program end with the thread that starts it, which dies with our process. If
// the program is killed, its children are killed too.
func endWithThread(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM} // timeout(1) passes it on
	cmd.Cancel = func() error {
		if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); !errors.Is(err, syscall.ESRCH) {
			return err
		}
		return nil
	}
}
