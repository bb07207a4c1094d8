package serve

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/holdfast-metal/holdfast/client/sdnotify"
)

// statusEvery is the interval of reports to systemd; its watchdog may require a shorter one.
const statusEvery = 5 * time.Second

// pulse notifies systemd that the peer is up, of its status line, and of its liveness. It does
// nothing if systemd did not start the peer.
type pulse struct {
	notify sdnotify.Notifier
	log    *slog.Logger
	// line returns the status line. It blocks if the peer hangs, and the watchdog then ends the
	// process.
	line func() string
}

// newPulse reads the socket and the watchdog interval from the environment.
func newPulse(log *slog.Logger, line func() string) pulse {
	return pulse{notify: sdnotify.New(os.Getenv, os.Getpid()), log: log, line: line}
}

// run notifies systemd that the peer is up once it listens and answers calls, and then reports
// until ctx ends. A known leader is not required (that is /readyz): a peer of a cluster without
// a majority is not a service that failed to start.
func (p pulse) run(ctx context.Context) error {
	p.send(ctx, sdnotify.Ready)
	every := statusEvery
	if d := p.notify.Watchdog(); d > 0 {
		every = min(every, d/3)
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for last := ""; ctx.Err() == nil; {
		words := []string{sdnotify.Watchdog}
		if line := p.line(); line != last {
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
		p.log.DebugContext(ctx, "cannot notify systemd", "error", err)
	}
}

// statusLine is the text that systemctl status shows.
func statusLine(role, leader string, index uint64, why error) string {
	line := fmt.Sprintf("%s, index %d", role, index)
	if role != "leader" && leader != "" {
		line = fmt.Sprintf("%s of %s, index %d", role, leader, index)
	}
	if why != nil {
		line += fmt.Sprintf(": not ready: %.500s", why)
	}
	return line
}
