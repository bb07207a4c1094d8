// Package smi reads the state of the GPUs from nvidia-smi.
//
// It knows the program's arguments and output. The program hangs when a GPU has fallen off
// the bus, and then not even SIGKILL ends it. So Monitor runs it in its own loop, and
// callers read the last result without waiting.
package smi

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"strings"
	"sync"
	"time"
)

const (
	// Every is the time between two polls.
	Every = 15 * time.Second
	// askTimeout bounds one run of nvidia-smi. Without its persistence daemon it takes
	// seconds for each GPU.
	askTimeout = 30 * time.Second
	// dieTimeout bounds the wait for a killed run.
	dieTimeout = 2 * time.Second
	// Fresh is the maximum age of a result. It allows three failed polls.
	Fresh = 2 * time.Minute
)

// Ask runs nvidia-smi with the arguments and returns its output.
type Ask func(ctx context.Context, args ...string) (string, error)

// Find returns an Ask for this machine's nvidia-smi, or false if it has none.
func Find() (Ask, bool) {
	path, err := exec.LookPath("nvidia-smi")
	if err != nil {
		return nil, false
	}
	return Program(path), true
}

// Program returns an Ask for the program at path. While a run survives SIGKILL, no other
// one is started, so that they do not pile up.
func Program(path string) Ask {
	type result struct {
		out string
		err error
	}
	free := make(chan struct{}, 1)
	free <- struct{}{}
	return func(ctx context.Context, args ...string) (string, error) {
		select {
		case <-free:
		default:
			return "", fmt.Errorf("run %s: an earlier run still hangs: a GPU may be lost (see dmesg for Xid)", path)
		}
		ctx, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		done := make(chan result, 1)
		// The goroutine outlives the call only if the kernel cannot end the program.
		go func() {
			cmd := exec.CommandContext(ctx, path, args...)
			cmd.WaitDelay = dieTimeout
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			if err != nil {
				err = fmt.Errorf("run %s: %w: %.200s", path, err, strings.TrimSpace(stderr.String()))
			}
			free <- struct{}{} // before the result: its receiver may ask again at once
			done <- result{string(out), err}
		}()
		select {
		case r := <-done:
			return r.out, r.err
		case <-ctx.Done():
		}
		t := time.NewTimer(2 * dieTimeout)
		defer t.Stop()
		select {
		case r := <-done:
			return r.out, r.err
		case <-t.C:
			return "", fmt.Errorf("run %s: it hangs and cannot be killed: a GPU may be lost (see dmesg for Xid)", path)
		}
	}
}

// Monitor polls the GPUs.
type Monitor struct {
	ask Ask
	log *slog.Logger

	mu   sync.Mutex
	gpus []GPU
	at   time.Time // of gpus; zero: never
	err  error     // of the last poll
}

// NewMonitor returns a monitor. Nothing is polled yet.
func NewMonitor(ask Ask, log *slog.Logger) *Monitor { return &Monitor{ask: ask, log: log} }

// Run polls until the context ends, and then returns nil.
func (m *Monitor) Run(ctx context.Context) error {
	tick := time.NewTicker(Every)
	defer tick.Stop()
	for {
		m.Poll(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Poll polls once.
func (m *Monitor) Poll(ctx context.Context) {
	gpus, err := query(ctx, m.ask)
	if ctx.Err() != nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil && m.err == nil {
		m.log.WarnContext(ctx, "cannot read the state of the GPUs", "err", err)
	}
	if m.err = err; err == nil {
		m.gpus, m.at = gpus, time.Now()
	}
}

// GPUs returns the result of the last successful poll, unless it is too old.
func (m *Monitor) GPUs() ([]GPU, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case !m.at.IsZero() && time.Since(m.at) <= Fresh:
		return m.gpus, nil
	case m.err != nil:
		return nil, m.err
	}
	return nil, errors.New("the GPUs have not been polled yet")
}

// query reads the state of all GPUs and their programs.
func query(ctx context.Context, ask Ask) ([]GPU, error) {
	const format = "--format=csv,noheader,nounits"
	out, err := ask(ctx, "--query-gpu="+queryGPUs, format)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == 2 { // unknown argument
		out, err = ask(ctx, "--query-gpu="+queryGPUsOld, format)
	}
	gpus, odd := parseGPUs(out)
	if len(gpus) == 0 || err != nil && !exited(err) {
		return nil, cmp.Or(err, odd)
	}
	// With one lost GPU, the program may report the others and then fail.
	if out, err = ask(ctx, "--query-compute-apps="+queryPrograms, format); err != nil && !exited(err) {
		return nil, err
	}
	_ = addPrograms(gpus, out) // without the programs, the GPUs still count
	return gpus, nil
}

// exited reports whether the program has ended by itself.
func exited(err error) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	return ok && exit.Exited()
}
