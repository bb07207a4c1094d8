package serve

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/holdfast-metal/holdfast/client/sdnotify"
)

// lookEvery is how often systemd hears how the peer is doing, or more often where its watchdog
// wants that.
const lookEvery = 5 * time.Second

// pulse tells systemd that the peer is up, a line of status, and that it does not hang. Where
// systemd did not start the peer, nothing happens.
type pulse struct {
	notify sdnotify.Notifier
	log    *slog.Logger
	look   func() string // looks at the peer and gives the line; a peer that hangs does not return from it, and is ended by the watchdog
}

// newPulse takes the socket and the watchdog from the environment.
func newPulse(log *slog.Logger, look func() string) pulse {
	return pulse{notify: sdnotify.New(os.Getenv, os.Getpid()), log: log, look: look}
}

// run reports that the peer is up (it listens, and calls are answered: that it also knows a leader
// is /readyz, since a peer whose cluster has no majority is not a service that failed to start),
// and looks until ctx ends.
func (p pulse) run(ctx context.Context) error {
	p.send(ctx, sdnotify.Ready)
	every := lookEvery
	if d := p.notify.Watchdog(); d > 0 {
		every = min(every, d/3)
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for last := ""; ctx.Err() == nil; {
		words := []string{sdnotify.Watchdog}
		if line := p.look(); line != last {
			last, words = line, append(words, sdnotify.Status(line))
		}
		p.send(ctx, words...)
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	p.send(context.WithoutCancel(ctx), sdnotify.Stopping, sdnotify.Status("handing over"))
	return nil
}

func (p pulse) send(ctx context.Context, words ...string) {
	if err := p.notify.Send(words...); err != nil {
		p.log.DebugContext(ctx, "systemd was not told", "error", err)
	}
}

// statusLine is what systemctl status shows of a peer.
func statusLine(role, leader string, index uint64, why error) string {
	line := fmt.Sprintf("%s, index %d", role, index)
	if role != "leader" && leader != "" {
		line = fmt.Sprintf("%s of %s, index %d", role, leader, index)
	}
	if why != nil {
		line += fmt.Sprintf(": not ready: %.150s", why)
	}
	return line
}
