package cli

import (
	"context"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-metal/holdfast/client"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func machineRegister(a *app) *cobra.Command {
	var (
		o           output
		spec        specFlags
		in          inputs
		id, initial string
	)
	cmd := &cobra.Command{
		Use: "register (-f FILE | [flags])", DisableFlagsInUseLine: true, Args: exactly(),
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
			case in.given() && flags:
				return usagef("%s: give either -f or flags that describe a machine", cmd.CommandPath())
			case !in.given() && !flags:
				return usagef("%s: give -f FILE, or flags that describe a machine: see: %s --help", cmd.CommandPath(),
					cmd.CommandPath())
			}
			machines, err := machinesToRegister(a, &in, &spec, id, initial)
			if err != nil {
				return err
			}
			return a.online(func(ctx context.Context, c *client.Client, _ []string) error {
				if err := checkPools(ctx, c, machines, nil); err != nil {
					return err
				}
				return registerAll(ctx, a, c, &o, machines)
			})(cmd, args)
		},
	}
	o.register(cmd, shapes(machineKind())...)
	spec.register(cmd.Flags())
	in.register(cmd.Flags(), "machines")
	cmd.Flags().StringVar(&id, "id", "", "machine id (default: 8 generated hex digits)")
	cmd.Flags().StringVar(&initial, "phase", "", "first phase of a new machine: FACTORY_READY or READY")
	return cmd
}

func machinesToRegister(a *app, in *inputs, spec *specFlags, id, initial string) ([]*holdfastv1.Machine, error) {
	var machines []*holdfastv1.Machine
	if in.given() {
		read, err := readDocuments(a, in, machineKind())
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
			a.note("machine-id: %s", m.GetMachineId())
		}
	}
	return machines, nil
}

// registerAll registers machines, prints the successful ones in the given order, and returns
// the errors of the others.
func registerAll(ctx context.Context, a *app, c *client.Client, o *output, machines []*holdfastv1.Machine) error {
	done := make([]*holdfastv1.Machine, len(machines))
	errs := make([]error, len(machines))
	var g errgroup.Group
	g.SetLimit(parallel)
	for i, m := range machines {
		g.Go(func() error {
			var err error
			done[i], err = c.Machines().RegisterMachine(ctx, &holdfastv1.RegisterMachineRequest{Machine: m})
			errs[i] = failed(err, "register machine %s", m.GetMachineId())
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return printDone(a, o, machineKind(), done, errs, "register machines")
}
