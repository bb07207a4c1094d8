package machine

import (
	"context"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/kinds"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func machineRegister(a *app.App) *cobra.Command {
	var (
		o           output.Flags
		spec        specFlags
		in          output.Inputs
		id, initial string
	)
	cmd := &cobra.Command{
		Use: "register (-f FILE | [flags])", DisableFlagsInUseLine: true, Args: app.Exactly(),
		Short: "Register machines, or update them",
		Long: `Register machines, from a file or one from flags. A machine that is known is updated: its spec and
labels become those given. The status belongs to the server, but a new machine can begin in the phase
FACTORY_READY or READY.

The file is YAML or JSON with the names of the API: one machine, several with --- between them, a list,
or what 'machine list -o yaml' prints. A key that the API does not have is an error. Nothing is
registered unless the whole file is valid.

A machine without an id gets one of 8 hex digits, which the command generates and prints.`,
		Example: `  holdfast machine register -f machines.yaml
  holdfast machine register --id m-123 --label env=prod --bmc 10.20.30.41 --mac aa:bb:cc:dd:ee:ff --provider dc-1
  holdfast machine list -o yaml | HOLDFAST_ADDR=other:7400 holdfast machine register -f -`,
		RunE: func(cmd *cobra.Command, args []string) error {
			flags := spec.given(cmd.Flags()) || id != "" || initial != ""
			switch {
			case in.Given() && flags:
				return app.Usagef("%s: give either -f or flags that describe a machine", cmd.CommandPath())
			case !in.Given() && !flags:
				return app.Usagef("%s: give -f FILE, or flags that describe a machine: see: %s --help", cmd.CommandPath(),
					cmd.CommandPath())
			}
			machines, err := machinesToRegister(a, &in, &spec, id, initial)
			if err != nil {
				return err
			}
			return a.Online(func(ctx context.Context, c *client.Client, _ []string) error {
				if err := kinds.CheckPools(ctx, c, machines, nil); err != nil {
					return err
				}
				return registerAll(ctx, a, c, &o, machines)
			})(cmd, args)
		},
	}
	o.Register(cmd, output.Shapes(kinds.Machine())...)
	spec.register(cmd.Flags())
	in.Register(cmd.Flags(), "machines")
	cmd.Flags().StringVar(&id, "id", "", "machine id (default: 8 generated hex digits)")
	cmd.Flags().StringVar(&initial, "phase", "", "first phase of a new machine: FACTORY_READY or READY")
	return cmd
}

func machinesToRegister(a *app.App, in *output.Inputs, spec *specFlags, id, initial string) ([]*holdfastv1.Machine,
	error) {
	var machines []*holdfastv1.Machine
	if in.Given() {
		read, err := output.ReadDocuments(a, in, kinds.Machine())
		if err != nil {
			return nil, err
		}
		machines = read
	} else {
		m, err := spec.machine(id, false)
		if err != nil {
			return nil, err
		}
		if initial != "" {
			p, err := phase("--phase", initial)
			if err != nil {
				return nil, err
			}
			m.Status = &holdfastv1.MachineStatus{Phase: p}
		}
		machines = append(machines, m)
	}
	for _, m := range machines {
		if m.GetMachineId() == "" {
			m.MachineId = newMachineID()
			a.Note("machine-id: %s", m.GetMachineId())
		}
	}
	return machines, nil
}

// registerAll registers machines, prints the successful ones in the given order, and returns
// the errors of the others.
func registerAll(ctx context.Context, a *app.App, c *client.Client, o *output.Flags,
	machines []*holdfastv1.Machine) error {
	done := make([]*holdfastv1.Machine, len(machines))
	errs := make([]error, len(machines))
	var g errgroup.Group
	g.SetLimit(output.Parallel)
	for i, m := range machines {
		g.Go(func() error {
			var err error
			done[i], err = c.Machines().RegisterMachine(ctx, &holdfastv1.RegisterMachineRequest{Machine: m})
			errs[i] = app.Failed(err, "register machine %s", m.GetMachineId())
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return output.PrintDone(a, o, kinds.Machine(), done, errs, "register machines")
}
