package cluster

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/kinds"
	"github.com/holdfast-metal/holdfast/internal/wait"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func clusterSafe(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use: "failover-safe", Args: app.Exactly(),
		Short: "Check whether a peer may be lost now (exit code 7 if not)",
		Long: `Check whether a peer may be lost, stopped or upgraded now: there is a leader, and without any single voter a majority
still answers and may vote. For scripts: the exit code is 0 if so, 7 if not.`,
		Example: "  holdfast cluster failover-safe && systemctl restart holdfast",
		RunE: a.Online(func(ctx context.Context, c *client.Client, _ []string) error {
			s, err := kinds.GetClusterStatus(ctx, c)
			if err != nil {
				return err
			}
			if why := kinds.Unsafe(s); why != "" {
				return app.Exitf(app.ExitUnavailable, "not safe: %s", why)
			}
			_, err = fmt.Fprintf(a.Out, "safe: %d may fail, %s leads\n", s.GetFailureTolerance(), s.GetLeader())
			return err
		}),
	}
}

// Pace and limits of a drill.
const (
	probePause  = 2 * time.Millisecond
	drillBefore = 500 * time.Millisecond
	drillAfter  = 2 * time.Second
)

func clusterDrill(a *app.App) *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use: "drill", Args: app.Exactly(),
		Short: "Transfer the leadership under load and measure the interruption",
		Long: `Transfer the leadership to another peer while a client writes continuously (commands that change nothing), and print the
longest time without an acknowledged write. Runs continue under the next leader. It is refused if no peer may fail.`,
		Example: "  holdfast cluster drill",
		RunE: a.Online(func(ctx context.Context, c *client.Client, _ []string) error {
			s, err := kinds.GetClusterStatus(ctx, c)
			if err != nil {
				return err
			}
			if why := kinds.Unsafe(s); why != "" {
				return app.Exitf(app.ExitUnavailable, "not drilled: %s", why)
			}
			return runDrill(ctx, a, c, to)
		}),
	}
	cmd.Flags().StringVar(&to, "to", "", "next leader, a `peer` (default: the one with the newest log)")
	return cmd
}

func runDrill(ctx context.Context, a *app.App, c *client.Client, to string) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	m := &meter{last: time.Now()}
	wg.Go(func() {
		m.run(ctx, func(ctx context.Context) error {
			_, err := c.Operator().Probe(ctx, &holdfastv1.ProbeRequest{})
			return err
		})
	})
	_ = wait.Sleep(ctx, drillBefore)
	r, err := c.Operator().TransferLeadership(ctx, &holdfastv1.TransferLeadershipRequest{To: to})
	if err == nil {
		_ = wait.Sleep(ctx, drillAfter)
	}
	stop()
	wg.Wait()
	if err != nil {
		return app.Failed(err, "transfer leadership")
	}
	_, err = fmt.Fprintf(a.Out, "%s handed over to %s in %s: writes paused for %s (%d acknowledged, %d refused)\n",
		r.GetFrom(), r.GetTo(), r.GetTook().AsDuration().Round(time.Millisecond), m.longest.Round(time.Millisecond),
		m.acked, m.refused)
	return err
}

// meter writes continuously and keeps the longest gap between two acknowledgements.
type meter struct {
	last           time.Time
	longest        time.Duration
	acked, refused int
}

// run calls write until the context ends. A call may take a second.
func (m *meter) run(ctx context.Context, write func(context.Context) error) {
	for ctx.Err() == nil {
		try, cancel := context.WithTimeout(ctx, time.Second)
		err := write(try)
		cancel()
		switch {
		case err == nil:
			m.longest, m.last = max(m.longest, time.Since(m.last)), time.Now()
			m.acked++
		case ctx.Err() == nil:
			m.refused++
		}
		_ = wait.Sleep(ctx, probePause)
	}
	m.longest = max(m.longest, time.Since(m.last)) // no write has been acknowledged since
}
