package workload

import "syscall"

// tied makes a child die with the thread that starts it.
func tied() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
