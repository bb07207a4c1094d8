package smi

import (
	"bytes"
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
	// Every is the time between two looks.
	Every = 15 * time.Second
	// askTimeout bounds one run of nvidia-smi: without its persistence daemon it takes seconds for
	// each GPU.
	askTimeout = 30 * time.Second
	// dieTimeout is how long a run that was killed is waited for.
	dieTimeout = 2 * time.Second
	// Fresh is how old an answer may be: three looks that failed.
	Fresh = 2 * time.Minute
)

// Ask runs nvidia-smi with these arguments and gives what it writes.
type Ask func(ctx context.Context, args ...string) (string, error)

// Find returns an Ask for the nvidia-smi of this machine, false if it has none.
func Find() (Ask, bool) {
	path, err := exec.LookPath("nvidia-smi")
	if err != nil {
		return nil, false
	}
	return Program(path), true
}

// Program asks the program at path. While a run does not even die of SIGKILL, no other one is
// started: they would pile up.
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
			return "", fmt.Errorf("run %s: an earlier run still hangs: is a GPU lost? (see dmesg for Xid)", path)
		}
		ctx, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		done := make(chan result, 1)
		// It outlives the call only when the kernel does not let the program go.
		go func() {
			cmd := exec.CommandContext(ctx, path, args...)
			cmd.WaitDelay = dieTimeout
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			if err != nil {
				err = fmt.Errorf("run %s: %w: %.200s", path, err, strings.TrimSpace(stderr.String()))
			}
			free <- struct{}{} // first: who gets the answer may ask again at once
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
			return "", fmt.Errorf("run %s: it hangs and cannot be killed: is a GPU lost? (see dmesg for Xid)", path)
		}
	}
}

// Monitor looks at the GPUs again and again.
type Monitor struct {
	ask Ask
	log *slog.Logger

	mu   sync.Mutex
	gpus []GPU
	at   time.Time // of gpus; zero: never
	err  error     // of the last look
}

// NewMonitor returns a monitor. Nothing is asked yet.
func NewMonitor(ask Ask, log *slog.Logger) *Monitor { return &Monitor{ask: ask, log: log} }

// Run looks until the context ends, and returns nil then.
func (m *Monitor) Run(ctx context.Context) error {
	tick := time.NewTicker(Every)
	defer tick.Stop()
	for {
		m.Look(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Look asks once.
func (m *Monitor) Look(ctx context.Context) {
	gpus, err := query(ctx, m.ask)
	if ctx.Err() != nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil && m.err == nil {
		m.log.WarnContext(ctx, "the state of the GPUs is not known", "err", err)
	}
	if m.err = err; err == nil {
		m.gpus, m.at = gpus, time.Now()
	}
}

// GPUs returns what was last seen, unless that is too old.
func (m *Monitor) GPUs() ([]GPU, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case !m.at.IsZero() && time.Since(m.at) <= Fresh:
		return m.gpus, nil
	case m.err != nil:
		return nil, m.err
	}
	return nil, errors.New("the GPUs were not looked at yet")
}

// query asks for everything.
func query(ctx context.Context, ask Ask) ([]GPU, error) {
	const format = "--format=csv,noheader,nounits"
	out, err := ask(ctx, "--query-gpu="+queryGPUs, format)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == 2 { // an argument it does not know
		out, err = ask(ctx, "--query-gpu="+queryGPUsOld, format)
	}
	if err != nil {
		return nil, err
	}
	gpus, err := parseGPUs(out)
	if err != nil || len(gpus) == 0 {
		return nil, err
	}
	if out, err = ask(ctx, "--query-compute-apps="+queryPrograms, format); err != nil {
		return nil, err
	}
	return gpus, addPrograms(gpus, out)
}
