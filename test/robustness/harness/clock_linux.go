package harness

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-metal/holdfast/internal/localcluster"
	"github.com/holdfast-metal/holdfast/internal/wait"
)

// Clock is the wall clock of one process, a peer. It can be set like a host's clock by
// settimeofday: at once, also back, while the process runs, and without notice. Durations
// (CLOCK_MONOTONIC) are not affected, as on such a host. The Clock patches the process
// where it reads the clock, in the vDSO. The binary is the normal one, and the host's clock
// is unchanged.
type Clock struct {
	of   Process
	code *vdso
}

// Process is the process whose clock is set: a peer.
type Process interface {
	PID() int
	Running() bool
	Pause() error
	Resume() error
}

// ClocksMissing returns the reason why clocks cannot be set here, or "".
func ClocksMissing() string {
	v, err := openVDSO(os.Getpid())
	if err != nil {
		return err.Error()
	}
	_ = v.mem.Close()
	return ""
}

// SetClock sets a process's wall clock off by an offset. The caller must call Restore at
// the end.
func SetClock(ctx context.Context, p Process, offset time.Duration) (*Clock, error) {
	code, err := openVDSO(p.PID())
	if err != nil {
		return nil, err
	}
	c := &Clock{of: p, code: code}
	if err := c.stopped(ctx, func() error { return code.set(offset) }); err != nil {
		return nil, errors.Join(fmt.Errorf("set the clock of process %d: %w", p.PID(), err), code.mem.Close())
	}
	return c, nil
}

// Move changes the offset at once.
func (c *Clock) Move(offset time.Duration) error { return c.code.move(offset) }

// Restore sets the clock to the host's time again, unless the process has ended.
func (c *Clock) Restore(ctx context.Context) error {
	defer func() { _ = c.code.mem.Close() }()
	if !c.of.Running() {
		return nil
	}
	if err := c.stopped(ctx, c.code.restore); err != nil {
		return fmt.Errorf("restore the clock of process %d: %w", c.of.PID(), err)
	}
	return nil
}

// stopped stops the process for some milliseconds, at a moment when no thread executes the
// code to be replaced.
func (c *Clock) stopped(ctx context.Context, do func() error) error {
	for {
		if err := c.of.Pause(); err != nil {
			return err
		}
		free, err := c.away(ctx)
		if free && err == nil {
			err = do()
		}
		if err := errors.Join(err, c.of.Resume()); free || err != nil {
			return err
		}
		if err := wait.Sleep(ctx, time.Millisecond); err != nil {
			return err
		}
	}
}

// away waits until all threads have stopped, and reports whether each of them is elsewhere.
func (c *Clock) away(ctx context.Context) (bool, error) {
	tasks := filepath.Join("/proc", strconv.Itoa(c.of.PID()), "task")
	for ctx.Err() == nil {
		threads, err := os.ReadDir(tasks)
		if err != nil {
			return false, err
		}
		all, free := true, true
		for _, t := range threads {
			at, stopped, err := counter(filepath.Join(tasks, t.Name()))
			if errors.Is(err, os.ErrNotExist) {
				continue // it has just ended
			}
			if err != nil {
				return false, err
			}
			all, free = all && stopped, free && (at <= c.code.entry || at >= c.code.entry+jumpSize)
			if stopped && free {
				busy, err := inHandler(filepath.Join(tasks, t.Name()))
				if err != nil {
					return false, err
				}
				free = !busy
			}
		}
		if all {
			return free, nil
		}
		if err := wait.Sleep(ctx, time.Millisecond); err != nil {
			return false, err
		}
	}
	return false, ctx.Err()
}

// inHandler reports whether a thread is in a handler of a signal, such as that of a preemption. The
// handler may return to the code to be replaced. Go blocks SIGSEGV in handlers, and otherwise only
// while it makes a thread (proc(5), SigBlk in /proc/[pid]/task/[tid]/status).
func inHandler(task string) (bool, error) {
	status, err := os.ReadFile(filepath.Join(task, "status"))
	if err != nil {
		return false, err
	}
	_, rest, _ := strings.Cut(string(status), "SigBlk:\t")
	mask, _, _ := strings.Cut(rest, "\n")
	blocked, err := strconv.ParseUint(mask, 16, 64)
	if err != nil {
		return false, fmt.Errorf("read the blocked signals of %s: %w", task, err)
	}
	return blocked&(1<<(syscall.SIGSEGV-1)) != 0, nil
}

// counter returns the instruction pointer of a thread (proc(5),
// /proc/[pid]/task/[tid]/syscall), and whether the thread is stopped there.
func counter(task string) (at int64, stopped bool, err error) {
	stat, err := os.ReadFile(filepath.Join(task, "stat"))
	if err != nil {
		return 0, false, err
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	if !strings.HasPrefix(rest, "T") {
		return 0, false, nil
	}
	call, err := os.ReadFile(filepath.Join(task, "syscall"))
	if err != nil {
		return 0, false, err
	}
	f := strings.Fields(string(call))
	if len(f) == 0 || f[0] == "running" {
		return 0, false, nil
	}
	at, err = strconv.ParseInt(f[len(f)-1], 0, 64)
	return at, err == nil, err
}

// ClockOf asks a peer for its time, and returns the difference to the host's time, to the
// second.
func (c *Cluster) ClockOf(ctx context.Context, p *localcluster.Peer) (time.Duration, error) {
	ctx, stop := context.WithTimeout(ctx, 5*time.Second)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL("/healthz"), nil)
	if err != nil {
		return 0, err
	}
	res, err := c.HTTP().Do(req)
	if err != nil {
		return 0, fmt.Errorf("ask peer %s for its time: %w", p.ID, err)
	}
	_ = res.Body.Close()
	at, err := http.ParseTime(res.Header.Get("Date"))
	if err != nil {
		return 0, fmt.Errorf("read the time of peer %s: %w", p.ID, err)
	}
	return time.Until(at).Round(time.Second), nil
}
