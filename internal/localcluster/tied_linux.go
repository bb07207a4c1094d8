package localcluster

import "syscall"

// tied makes a child die with the thread that starts it. A group of its own keeps a Ctrl-C on the
// terminal from it: whoever runs the cluster decides when it stops.
func tied() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
