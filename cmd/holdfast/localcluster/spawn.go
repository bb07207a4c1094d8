package localcluster

import (
	"os/exec"
	"runtime"
)

// spawner starts processes, all from one thread: the kernel kills a child when the thread that started it ends, and
// threads of the Go runtime come and go.
type spawner struct {
	start chan *exec.Cmd
	done  chan error
}

// newSpawner starts the thread. It ends with close, or with the process.
func newSpawner() *spawner {
	s := &spawner{start: make(chan *exec.Cmd), done: make(chan error)}
	go func() {
		runtime.LockOSThread() // and never unlock: the thread ends with the goroutine
		for cmd := range s.start {
			s.done <- cmd.Start()
		}
	}()
	return s
}

// spawn starts one process. The caller serialises calls.
func (s *spawner) spawn(cmd *exec.Cmd) error {
	cmd.SysProcAttr = tied()
	s.start <- cmd
	return <-s.done
}

// close ends the thread, and with it what it has started.
func (s *spawner) close() { close(s.start) }
