package sdnotify

import (
	"context"
	"log/slog"
	"time"
)

// statusEvery is the interval of reports to systemd; its watchdog may require a shorter one.
const statusEvery = 5 * time.Second

// Pulse notifies systemd that a service is up, of its status line, and of its liveness.
type Pulse struct {
	Notifier Notifier
	// Line returns the status line. It blocks if the service hangs, and the watchdog then ends the
	// process.
	Line func() string
	Last string // the status line while the service stops
	Log  *slog.Logger
}

// Run notifies systemd that the service is up, and then reports until ctx ends. Call it once the
// service answers.
func (p Pulse) Run(ctx context.Context) error {
	p.send(ctx, Ready)
	every := statusEvery
	if d := p.Notifier.Watchdog(); d > 0 {
		every = min(every, d/3)
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for last := ""; ctx.Err() == nil; {
		words := []string{Watchdog}
		if line := p.Line(); line != last {
			last, words = line, append(words, Status(line))
		}
		p.send(ctx, words...)
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	p.send(context.WithoutCancel(ctx), Stopping, Status(p.Last))
	return nil
}

func (p Pulse) send(ctx context.Context, words ...string) {
	if err := p.Notifier.Send(words...); err != nil {
		p.Log.DebugContext(ctx, "cannot notify systemd", "error", err)
	}
}
