package localcluster

import (
	"os"
	"os/exec"
	"runtime"
)

// spawner starts processes, all from one thread: the kernel kills a child when the thread that
// started it ends, and threads of the Go runtime come and go.
type spawner struct {
	start chan *exec.Cmd
	done  chan error
}

// newSpawner starts the thread, which first calls enter unless it is nil. The thread ends at close,
// or with this process.
func newSpawner(enter func() error) (*spawner, error) {
	s := &spawner{start: make(chan *exec.Cmd), done: make(chan error)}
	go func() {
		runtime.LockOSThread() // and never unlock: the thread ends with the goroutine
		if enter != nil {
			s.done <- enter()
		} else {
			s.done <- nil
		}
		for cmd := range s.start {
			s.done <- cmd.Start()
		}
	}()
	if err := <-s.done; err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// process is one process that was started.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended and was reaped
	err  error         // of Wait; read after done
}

// run starts a process that appends its output to a log file. The caller serializes calls.
func (s *spawner) run(binary string, args, env []string, logFile string) (*process, error) {
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()   // the child has its own
	cmd := exec.Command(binary, args...) // without a context: it outlives the call
	cmd.Env, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = env, log, log, tied()
	s.start <- cmd
	if err := <-s.done; err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	go func() { // ends with the process
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// close ends the thread, and so its processes (see tied).
func (s *spawner) close() { close(s.start) }
