package localcluster

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
)

// Program is another process, such as a system that the peers are compared with. Like them, it ends
// with this process.
type Program struct {
	LogFile string // its stdout and stderr

	spawner *spawner
	closing sync.Once // of the spawner
	proc    *process
}

// StartProgram starts a program. Its environment is that of this process without HOLDFAST_*, with
// env.
func StartProgram(binary string, args, env []string, logFile string) (*Program, error) {
	p := &Program{LogFile: logFile}
	var err error
	if p.spawner, err = newSpawner(nil); err != nil {
		return nil, fmt.Errorf("start %s: %w", binary, err)
	}
	if p.proc, err = p.spawner.run(binary, args, environment(env), logFile); err != nil {
		p.spawner.close()
		return nil, fmt.Errorf("start %s: %w", binary, err)
	}
	return p, nil
}

// PID returns the id of the process, also after it has ended.
func (p *Program) PID() int { return p.proc.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Program) Done() <-chan struct{} { return p.proc.done }

// LogTail returns at most the last n bytes of its output, beginning at the start of a line.
func (p *Program) LogTail(n int) string { return tail(p.LogFile, n) }

// Kill ends the process and its children with SIGKILL, and blocks until the process has ended. It
// returns nil if the process had ended before.
func (p *Program) Kill() error {
	defer p.closing.Do(p.spawner.close)
	// The process leads a group of its own, whose id cannot be reused while the group has a
	// member.
	if err := syscall.Kill(-p.PID(), syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("kill process %d: %w", p.PID(), err)
	}
	<-p.proc.done
	return nil
}
