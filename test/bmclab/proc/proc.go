// Package proc starts processes that end with their parent, and lets tests stop, resume and
// kill them.
//
// It manages processes and their logs, and does not depend on what they are.
package proc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Starter starts processes, all from one thread. The kernel kills a child when the thread
// that started it ends, and the Go runtime ends threads at any time.
type Starter struct {
	start chan *exec.Cmd
	done  chan error

	mu    sync.Mutex
	all   []*Process
	ended bool
}

// NewStarter starts the thread. It ends with Close, or with this process.
func NewStarter() *Starter {
	s := &Starter{start: make(chan *exec.Cmd), done: make(chan error)}
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		for cmd := range s.start {
			s.done <- cmd.Start()
		}
	}()
	return s
}

// Process is a started process.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended and was reaped
}

// Start starts a program that appends its output to a log file.
func (s *Starter) Start(logFile, program string, args ...string) (*Process, error) {
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	defer func() { _ = log.Close() }()    // the child has its own
	cmd := exec.Command(program, args...) // without a context: it runs until it is killed
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = log, log, tied()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil, fmt.Errorf("start %s: the lab is closed", program)
	}
	s.start <- cmd
	if err := <-s.done; err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	p := &Process{cmd: cmd, done: make(chan struct{})}
	go func() { // ends with the process
		_ = cmd.Wait()
		close(p.done)
	}()
	s.all = append(s.all, p)
	return p, nil
}

// Close kills all started processes, and waits until they have ended.
func (s *Starter) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	s.ended = true
	for _, p := range s.all {
		_ = p.Kill()
	}
	close(s.start)
}

// Kill kills the process with SIGKILL and waits until it has ended.
func (p *Process) Kill() error {
	err := p.signal(syscall.SIGKILL)
	<-p.done
	return err
}

// Stop stops the process (SIGSTOP), and waits until it is stopped. On a busy machine a
// thread runs on for a moment after the signal was sent, and may answer.
func (p *Process) Stop() error {
	if err := p.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for late := time.Now().Add(10 * time.Second); ; {
		select {
		case <-p.done:
			return nil
		case <-time.After(time.Millisecond):
		}
		if stopped(p.PID()) {
			return nil
		}
		if time.Now().After(late) {
			return fmt.Errorf("stop %s: its threads are still running", p.cmd.Args[0])
		}
	}
}

// stopped reports whether all threads of a process are stopped.
func stopped(pid int) bool {
	stats, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, f := range stats {
		stat, err := os.ReadFile(f)
		if _, state, ok := strings.Cut(string(stat), ") "); err == nil && (!ok || state[0] != 'T') {
			return false
		}
	}
	return len(stats) > 0
}

// Resume resumes the process (SIGCONT).
func (p *Process) Resume() error { return p.signal(syscall.SIGCONT) }

// Done returns a channel that is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// PID returns the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

func (p *Process) signal(sig syscall.Signal) error {
	err := p.cmd.Process.Signal(sig)
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("send %v to %s: %w", sig, strings.Join(p.cmd.Args[:1], " "), err)
	}
	return nil
}
