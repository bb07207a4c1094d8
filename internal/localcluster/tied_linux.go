package localcluster

import "syscall"

// tied makes a child end with the thread that starts it. A process group of its own shields it
// from a Ctrl-C on the terminal: the cluster's owner decides when it stops.
func tied() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
