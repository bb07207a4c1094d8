package localcluster

import "syscall"

// tied returns attributes with which a child ends with the thread that starts it. The child has a
// process group of its own, so that Ctrl-C on the terminal does not end it before this process.
func tied() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
