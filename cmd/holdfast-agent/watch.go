package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/holdfast-metal/holdfast/client/sdnotify"
)

const (
	// statusEvery is how often systemctl status is brought up to date.
	statusEvery = 10 * time.Second
	// wokeLate is how late a look has to be for the process to have slept.
	wokeLate = 10 * time.Second
)

// report is how the work goes.
type report struct {
	line     string // for systemctl status
	progress time.Time
	patience time.Duration // after so long without progress, something hangs
}

// watch tells systemd how the process is doing: that it runs (not that a server is there: a machine
// starts without one), a line of status, and that it does not hang.
type watch struct {
	notify sdnotify.Notifier
	log    *slog.Logger
	report func() report
}

func (w watch) run(ctx context.Context) error {
	w.send(ctx, sdnotify.Ready)
	every := statusEvery
	if d := w.notify.Watchdog(); d > 0 {
		every = min(every, d/3)
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	last, stuck, looked, woke := "", false, time.Now(), time.Time{}
	for {
		r := w.report()
		// A process that was itself stopped (by a debugger, by SIGSTOP) cannot tell that others
		// hang.
		if time.Since(looked) > every+wokeLate {
			woke = time.Now()
		}
		looked = time.Now()
		var words []string
		if r.line != last {
			last = r.line
			words = append(words, sdnotify.Status(r.line))
		}
		if silent := min(time.Since(r.progress), time.Since(woke)); silent <= r.patience {
			words, stuck = append(words, sdnotify.Watchdog), false
		} else if !stuck {
			stuck = true
			w.log.ErrorContext(ctx, "no progress, the watchdog may end this process", "since", silent.Round(time.Second))
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
		w.log.DebugContext(ctx, "systemd was not told", "err", err)
	}
}
