package cli

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/cmd/holdfast/cli/render"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// watchInterval is how often machines are asked for: the API streams runs, not machines.
const watchInterval = 2 * time.Second

func (a *app) machineWatch() *cobra.Command {
	var l listing
	var every time.Duration
	cmd := &cobra.Command{
		Use: "watch [MACHINE]", Args: between(0, 1, "MACHINE"), ValidArgsFunction: a.complete(machineIDs),
		Short: "Print machines, and each again when it changes",
		Long: `Print machines, and each again when it changes, until Ctrl-C. It asks every --interval: of several
changes in between it shows the last. 'run watch' shows every step of every run.`,
		Example: `  holdfast machine watch
  holdfast machine watch m-123 -o json
  holdfast machine watch --filter 'labels.rack = "r7"'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) > 0 && l.filter != "":
				return usagef("%s: give either a machine or --filter", cmd.CommandPath())
			case every <= 0:
				return usagef("--interval: %s: give more than 0", every)
			}
			return a.online(func(ctx context.Context, c *client.Client, args []string) error {
				return a.watchMachines(ctx, &l.output, every, func() ([]*holdfastv1.Machine, error) {
					if len(args) > 0 {
						m, err := getMachine(ctx, c, args[0])
						return []*holdfastv1.Machine{m}, err
					}
					return listMachines(ctx, c, &l)
				})
			})(cmd, args)
		},
	}
	l.register(cmd, "phase = IN_SERVICE")
	cmd.Flags().DurationVar(&every, "interval", watchInterval, "how often to ask")
	return cmd
}

// watchMachines prints what read returns, and again what has changed, until the context ends.
func (a *app) watchMachines(ctx context.Context, o *output, every time.Duration, read func() ([]*holdfastv1.Machine, error)) error {
	ctx, cancel := a.patience(ctx)
	defer cancel()
	tick := time.NewTicker(every)
	defer tick.Stop()
	printed := map[string]*holdfastv1.Machine{}
	t := machineKind().newTable(o)
	header := true
	for {
		machines, err := read()
		if err != nil {
			return ended(ctx, err)
		}
		var changed []*holdfastv1.Machine
		now := make(map[string]*holdfastv1.Machine, len(machines))
		for _, m := range machines {
			seen := significant(m)
			now[m.GetMachineId()] = seen
			if !proto.Equal(seen, printed[m.GetMachineId()]) {
				changed = append(changed, m)
			}
		}
		for id := range printed {
			if now[id] == nil {
				a.note("note: machine %s is gone, or no longer matches", id)
			}
		}
		printed = now
		if err := a.printChanged(o, t, changed, header); err != nil {
			return err
		}
		header = header && len(changed) == 0
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ended(ctx, ctx.Err())
		}
	}
}

// significant is a machine without the times of observations that changed nothing.
func significant(m *holdfastv1.Machine) *holdfastv1.Machine {
	m = proto.CloneOf(m)
	m.Revision, m.UpdatedAt = 0, nil
	for _, c := range m.GetStatus().GetConditions() {
		c.ObservedAt, c.FreshUntil = nil, nil
	}
	return m
}

func (a *app) printChanged(o *output, t *render.Table, machines []*holdfastv1.Machine, header bool) error {
	switch {
	case len(machines) == 0:
		return nil
	case o.format == formatName:
		return printNames(a, machineKind(), machines)
	case !o.table():
		for _, m := range machines {
			if err := printStream(a, o, m); err != nil {
				return err
			}
		}
		return nil
	}
	for _, m := range machines {
		t.Row(machineRow(m, a.Now(), o.wide())...)
	}
	defer t.Clear()
	return a.table(&output{format: o.format, noHeaders: o.noHeaders || !header}, t)
}

// ended is what a watch without an end returns when its context ends: nothing when the user stopped
// it, which is how it ends.
func ended(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return nil
	}
	return err
}
