package cli

import (
	"cmp"
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/kinds"
	"github.com/holdfast-metal/holdfast/internal/cli/machine"
	"github.com/holdfast-metal/holdfast/internal/cli/top"
	"github.com/holdfast-metal/holdfast/internal/describe"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func topCommand(a *app.App) *cobra.Command {
	var every time.Duration
	cmd := &cobra.Command{
		Use: "top", Args: app.Exactly(),
		Short: "Watch machines, runs, issues and peers live",
		Long: `Watch the fleet live on a terminal: machines by state, active runs and what they wait for, machines that need attention (as
in 'machine issues'), the peers with the leader and their lag, leases and commands per second.

It is read-only: no key changes anything. It reads from the peer that answers (like --stale), so it works without a leader, and
it switches to another peer after a failure. ? shows the keys. The selected row stays selected while others change.

Without a terminal use 'run watch', 'machine issues' and 'cluster status -o json'.`,
		Example: `  holdfast top
  holdfast top --every 5s
  NO_COLOR=1 holdfast top`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch _, _, ok := a.Size(a.Out); {
			case every < minEvery:
				return app.Usagef("%s: --every %s: give %s or more", cmd.CommandPath(), every, minEvery)
			case !ok:
				return app.Usagef("%s: standard output is not a terminal: in pipes use run watch, machine issues, or cluster "+
					"status -o json", cmd.CommandPath())
			case !a.Terminal(a.Out):
				return app.Usagef("%s: the terminal (TERM=dumb) cannot be redrawn: use run watch, or machine issues",
					cmd.CommandPath())
			}
			a.Globals.Stale = true
			// The client's notes about another peer would overwrite the view, which shows them.
			a.Err = io.Discard
			return a.Online(func(ctx context.Context, c *client.Client, _ []string) error {
				ctx, cancel := a.Patience(ctx, 0)
				defer cancel()
				cfg := top.Config{In: a.In, Out: a.Painted(), Color: a.Color(a.Out), Every: every, Now: a.Now,
					Env: []string{"TERM=" + a.Getenv("TERM"), "COLORTERM=" + a.Getenv("COLORTERM"), "NO_COLOR=" +
						a.Getenv("NO_COLOR")}}
				return top.New(cfg, topSource{c}).Run(ctx)
			})(cmd, nil)
		},
	}
	cmd.Flags().DurationVar(&every, "every", time.Second,
		"interval between polls of peers and machines; runs are followed live")
	return cmd
}

// minEvery is the minimum interval: each poll reads all machines.
const minEvery = 200 * time.Millisecond

// topSource reads the data of the view from a cluster.
type topSource struct{ c *client.Client }

// Status returns the state of the control plane, as seen by one peer.
func (s topSource) Status(ctx context.Context) (*holdfastv1.ClusterStatus, error) {
	return kinds.GetClusterStatus(ctx, s.c)
}

// WatchRuns sends the active runs, and then each transition, also that which ends a run.
func (s topSource) WatchRuns(ctx context.Context, f func(*holdfastv1.RunEvent) error) error {
	return s.c.WatchRuns(ctx, kinds.ActiveRuns, 0, f)
}

// Fleet counts the machines.
func (s topSource) Fleet(ctx context.Context) (*top.Fleet, error) {
	f := &top.Fleet{States: map[holdfastv1.EffectiveState_Value]int{}}
	token := ""
	for {
		page, err := s.c.Machines().ListMachines(ctx, &holdfastv1.ListMachinesRequest{PageSize: 1000, PageToken: token})
		if err != nil {
			return nil, err
		}
		for _, m := range page.GetMachines() {
			f.Total++
			s := m.GetStatus()
			f.States[s.GetEffectiveState()]++
			if s.GetEffectiveState() == holdfastv1.EffectiveState_READY && s.GetPhase() == holdfastv1.MachineStatus_IN_SERVICE {
				f.Absent++
			}
			if i, ok := topIssue(m); ok {
				f.Issues = append(f.Issues, i)
			}
		}
		if token = page.GetNextPageToken(); token == "" {
			return f, nil
		}
	}
}

// topIssue returns the issue of a machine, as in 'machine issues'.
func topIssue(m *holdfastv1.Machine) (top.Issue, bool) {
	first := machine.Worst(m)
	if first == nil {
		return top.Issue{}, false
	}
	i := top.Issue{
		Machine: m.GetMachineId(), Urgency: machine.UrgencyText(first.GetUrgency()), Rank: int(first.GetUrgency()),
		Since: app.At(first.GetSince()), State: m.GetStatus().GetEffectiveState(),
		Where: cmp.Or(m.GetSpec().GetRack(), m.GetSpec().GetPool()),
		Run:   m.GetStatus().GetActiveRunId(),
	}
	for _, one := range machine.IssuesOf(m) {
		i.What = append(i.What, describe.Issue(one))
	}
	return i, true
}
