package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-metal/holdfast/agent/facts/smi"
	"github.com/holdfast-metal/holdfast/client/sdnotify"
)

const (
	// statusEvery is the time between updates of the line in systemctl status.
	statusEvery = 10 * time.Second
	// wokeLate is how late a check must be to conclude that the process was stopped.
	wokeLate = 10 * time.Second
)

// report is the progress of the work.
type report struct {
	line     string // for systemctl status
	progress time.Time
	patience time.Duration // longer without progress means that something hangs
}

// watch reports the state of the process to systemd: that it runs, even if no server is
// reachable, a line of status, and that it does not hang.
type watch struct {
	notify sdnotify.Notifier
	log    *slog.Logger
	report func() report
}

// watched runs a watch and the monitor of the GPUs, if there is one, in a group, and blocks until
// all of the group has ended.
func (s system) watched(
	ctx context.Context, group *errgroup.Group, gpus *smi.Monitor, log *slog.Logger, report func() report,
) error {
	if gpus != nil {
		group.Go(func() error { return gpus.Run(ctx) })
	}
	w := watch{notify: sdnotify.New(s.getenv, s.pid), log: log, report: report}
	group.Go(func() error { return w.run(ctx) })
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

func (w watch) run(ctx context.Context) error {
	w.send(ctx, sdnotify.Ready)
	every := statusEvery
	if d := w.notify.Watchdog(); d > 0 {
		every = min(every, d/3)
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	last, stuck, checked, woke := "", false, time.Now(), time.Time{}
	for {
		r := w.report()
		// A process that was itself stopped (by a debugger, by SIGSTOP) cannot conclude
		// that others hang.
		if time.Since(checked) > every+wokeLate {
			woke = time.Now()
		}
		checked = time.Now()
		var words []string
		if r.line != last {
			last = r.line
			words = append(words, sdnotify.Status(r.line))
		}
		if silent := min(time.Since(r.progress), time.Since(woke)); silent <= r.patience {
			words, stuck = append(words, sdnotify.Watchdog), false
		} else if !stuck {
			stuck = true
			w.log.ErrorContext(ctx, "no progress, the watchdog may end this process",
				"since", silent.Round(time.Second))
		}
		if len(words) > 0 {
			w.send(ctx, words...)
		}
		select {
		case <-ctx.Done():
			w.send(context.WithoutCancel(ctx), sdnotify.Stopping)
			return nil
		case <-tick.C:
		}
	}
}

func (w watch) send(ctx context.Context, words ...string) {
	if err := w.notify.Send(words...); err != nil {
		w.log.DebugContext(ctx, "cannot notify systemd", "err", err)
	}
}
