package localcluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"syscall"
)

// Peer is one peer, whose process can be ended and started again with the same id, addresses and
// data. It is safe for concurrent use.
type Peer struct {
	ID                                       string
	GRPCAddr, HTTPAddr, RaftAddr, GossipAddr string // host:port
	DataDir                                  string
	LogFile                                  string // stdout and stderr of all its processes

	binary  string
	args    []string
	env     []string
	spawner *spawner
	spawn   *sync.Mutex // of the cluster: one process is started at a time
	http    *http.Client
	secure  bool // it has TLS

	mu     sync.Mutex
	now    *process // the last one started, nil before
	paused bool
}

var errNotRunning = errors.New("it is not running")

// Start starts the peer's process. Cluster.WaitReady waits until it serves.
func (p *Peer) Start(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("start peer %s: %w", p.ID, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running() {
		return fmt.Errorf("start peer %s: it is running", p.ID)
	}
	p.spawn.Lock()
	proc, err := p.spawner.run(p.binary, p.args, p.env, p.LogFile)
	p.spawn.Unlock()
	if err != nil {
		return fmt.Errorf("start peer %s: %w", p.ID, err)
	}
	p.now, p.paused = proc, false
	return nil
}

// Add adds arguments for all later starts of the peer. The last one of a repeated flag counts.
func (p *Peer) Add(args ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.args = append(p.args, args...)
}

// running reports whether there is a process. The caller holds mu.
func (p *Peer) running() bool { return p.now != nil && p.now.running() }

// Running reports whether the peer has a process, stopped by Pause or not.
func (p *Peer) Running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running()
}

// awake reports whether there is a process that can answer.
func (p *Peer) awake() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running() && !p.paused
}

// signal sends a signal and returns the process.
func (p *Peer) signal(sig syscall.Signal) (*process, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running() {
		return nil, fmt.Errorf("send %v to peer %s: %w", sig, p.ID, errNotRunning)
	}
	if err := p.now.cmd.Process.Signal(sig); err != nil {
		if errors.Is(err, os.ErrProcessDone) {
			err = errNotRunning
		}
		return nil, fmt.Errorf("send %v to peer %s: %w", sig, p.ID, err)
	}
	switch sig {
	case syscall.SIGSTOP:
		p.paused = true
	case syscall.SIGCONT:
		p.paused = false
	}
	return p.now, nil
}

// Stop sends SIGTERM to the peer and blocks until it has ended. It returns an error if ctx ends
// first, or if the exit status is not 0.
func (p *Peer) Stop(ctx context.Context) error {
	proc, err := p.signal(syscall.SIGTERM)
	if err != nil {
		return err
	}
	select {
	case <-proc.done:
	case <-ctx.Done():
		return fmt.Errorf("stop peer %s: %w", p.ID, ctx.Err())
	}
	if proc.err != nil {
		return fmt.Errorf("stop peer %s: %w", p.ID, proc.err)
	}
	return nil
}

// Kill ends the peer with SIGKILL, like a crash, and blocks until it has ended. It returns nil if
// the peer had ended before.
func (p *Peer) Kill() error {
	proc, err := p.signal(syscall.SIGKILL)
	if errors.Is(err, errNotRunning) {
		return nil
	}
	if err != nil {
		return err
	}
	<-proc.done
	return nil
}

// Pause stops the peer's process (SIGSTOP): its connections stay open, but it does not answer.
func (p *Peer) Pause() error {
	_, err := p.signal(syscall.SIGSTOP)
	return err
}

// Resume continues a paused peer (SIGCONT), as if no time had passed.
func (p *Peer) Resume() error {
	_, err := p.signal(syscall.SIGCONT)
	return err
}

// Dump ends the peer with SIGQUIT, which writes the stacks of all goroutines into its log, and
// blocks until it has ended.
func (p *Peer) Dump() error {
	proc, err := p.signal(syscall.SIGQUIT)
	if err != nil {
		return err
	}
	<-proc.done
	return nil
}

// Wait blocks until the peer's process has ended. It returns nil for exit status 0, and otherwise
// an *exec.ExitError. It returns an error if the peer was never started.
func (p *Peer) Wait() error {
	p.mu.Lock()
	proc := p.now
	p.mu.Unlock()
	if proc == nil {
		return fmt.Errorf("wait for peer %s: %w", p.ID, errNotRunning)
	}
	<-proc.done
	if proc.err != nil {
		return fmt.Errorf("peer %s: %w", p.ID, proc.err)
	}
	return nil
}

// Done is closed when the peer's process has ended. It is nil before the first Start.
func (p *Peer) Done() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now == nil {
		return nil
	}
	return p.now.done
}

// PID returns the id of the peer's process, or 0 if it has none.
func (p *Peer) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running() {
		return 0
	}
	return p.now.cmd.Process.Pid
}

// Wipe removes the data of a peer that is not running, as if its disk had been replaced.
func (p *Peer) Wipe() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running() {
		return fmt.Errorf("wipe peer %s: it is running", p.ID)
	}
	if err := os.RemoveAll(p.DataDir); err != nil {
		return fmt.Errorf("wipe peer %s: %w", p.ID, err)
	}
	return nil
}

// LogTail returns at most the last n bytes of the peer's log, beginning at the start of a line.
func (p *Peer) LogTail(n int) string { return tail(p.LogFile, n) }
