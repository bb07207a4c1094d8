package feed

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/kinds"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Events returns the commands of events.
func Events(a *app.App) *cobra.Command {
	return app.Parent(&cobra.Command{
		Use: "events", Aliases: []string{"event"},
		Short:   "Follow events of machines, runs and services",
		Example: "  holdfast events watch",
	}, eventsWatch(a))
}

func eventsWatch(a *app.App) *cobra.Command {
	var o output.Flags
	var filter string
	var cursor uint64
	cmd := &cobra.Command{
		Use: "watch", Args: app.Exactly(),
		Short: "Follow all events in one order",
		Long: `Follow events of machines, runs and services until Ctrl-C: phases, states of nodes and agents, conditions and
inventory, started and ended runs, new and lost services. Each event is one line; -o json prints all of it, with its
cursor. No event is lost or repeated, even if a peer fails.

With --cursor it starts after that event; the last 65,536 events are kept.`,
		Example: `  holdfast events watch
  holdfast events watch --filter 'type = "run.failed" OR type = "machine.condition"'
  holdfast events watch --filter 'machine_id = m-123' -o json
  holdfast events watch --cursor 4711`,
		RunE: a.Online(func(ctx context.Context, c *client.Client, _ []string) error {
			ctx, cancel := a.Patience(ctx, 0)
			defer cancel()
			err := c.WatchEvents(ctx, filter, cursor, func(e *holdfastv1.Event) error {
				if e.GetType() == "" {
					return nil
				}
				return printEvent(a, &o, e)
			})
			return app.Failed(output.Ended(ctx, err), "watch events")
		}),
	}
	o.Register(cmd)
	cmd.Flags().StringVar(&filter, "filter", "", `only events that match (AIP-160), e.g. 'type = "run.failed"'`)
	app.AllowEmpty(cmd.Flags(), "filter")
	cmd.Flags().Uint64Var(&cursor, "cursor", 0, "go on after the event with this cursor, instead of from now on")
	return cmd
}

func printEvent(a *app.App, o *output.Flags, e *holdfastv1.Event) error {
	switch {
	case o.Structured():
		return output.PrintStream(a, o, e)
	case o.Format == output.FormatName:
		_, err := fmt.Fprintln(a.Out, e.GetCursor())
		return err
	}
	_, err := fmt.Fprintln(a.Out, render.Clean(eventLine(e)))
	return err
}

// eventLine returns an event as text: time, type, subject and change.
func eventLine(e *holdfastv1.Event) string {
	words := []string{app.Stamp(e.GetAt()), e.GetType()}
	add := func(s ...string) {
		for _, w := range s {
			if w != "" {
				words = append(words, w)
			}
		}
	}
	switch c, r, s := e.GetChange(), e.GetRun(), e.GetService(); {
	case c != nil:
		to := c.GetTo()
		if c.GetFrom() != "" {
			to = c.GetFrom() + " -> " + to
		}
		add(e.GetMachineId(), to)
		if c.GetRunId() != "" {
			add("by run " + c.GetRunId())
		} else if by := cmp.Or(c.GetPrincipal(), c.GetTriggeredBy()); by != "" {
			add("by " + by)
		}
		if c.GetComment() != "" {
			add("(" + c.GetComment() + ")")
		}
	case r != nil:
		add(e.GetMachineId(), r.GetRunId(), r.GetType())
		if r.GetError().GetMessage() != "" {
			add("(" + r.GetError().GetMessage() + ")")
		}
	case s != nil:
		add(kinds.ServiceID(s), s.GetTarget().GetServiceName())
	case e.GetPool() != nil:
		add(e.GetPool().GetPoolId())
		if why := e.GetPool().GetStatusReason(); why != "" {
			add("(" + why + ")")
		}
	}
	return strings.Join(words, "  ")
}
