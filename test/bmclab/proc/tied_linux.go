package proc

import "syscall"

// tied makes a child die with the thread that starts it. Its own process group protects it
// from Ctrl-C on the terminal.
func tied() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
