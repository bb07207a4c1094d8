package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// An operation of an operator on one machine is a run of a built-in plan: it is recorded, it
// excludes other runs, and its request id makes it safe to repeat.

// deed is such a run.
type deed struct {
	output
	requestID string
	detach    bool
	params    map[string]*bool
	values    map[string]string
	// show prints the result instead of the run; nil prints the run.
	show func(ctx context.Context, c *client.Client, r *holdfastv1.Run) error
}

// value sets a parameter of the run.
func (d *deed) value(name, value string) {
	if d.values == nil {
		d.values = map[string]string{}
	}
	d.values[name] = value
}

func (d *deed) register(cmd *cobra.Command) {
	d.output.register(cmd)
	cmd.Flags().StringVar(&d.requestID, "request-id", "",
		"request id that makes a repeated call safe (default: generated and printed)")
	cmd.Flags().BoolVar(&d.detach, "detach", false, "do not wait for the end")
}

// flag adds a flag that sets a parameter of the run.
func (d *deed) flag(cmd *cobra.Command, name, usage string) {
	if d.params == nil {
		d.params = map[string]*bool{}
	}
	d.params[name] = cmd.Flags().Bool(name, false, usage)
}

// run starts the plan on a machine and waits until it ends.
func (d *deed) run(a *app, cmd *cobra.Command, machine, plan string) error {
	req := &holdfastv1.StartRunRequest{MachineId: machine, PlanId: plan, RequestId: d.requestID, Params: d.values}
	for name, set := range d.params {
		if *set {
			if req.Params == nil {
				req.Params = map[string]string{}
			}
			req.Params[name] = "true"
		}
	}
	if req.RequestId == "" {
		req.RequestId = uuid.NewString()
		a.note("request-id: %s", req.RequestId)
	}
	return a.online(func(ctx context.Context, c *client.Client, _ []string) error {
		return a.start(ctx, c, &d.output, req, waitFlag{set: !d.detach}, d.show)
	})(cmd, []string{machine})
}

const planInspect = "plan/inspect"

func (a *app) machineBootDevice() *cobra.Command {
	devices := []string{"pxe", "http", "disk", "virtual-media"}
	var d deed
	cmd := &cobra.Command{
		Use: "boot-device MACHINE DEVICE", Args: exactly("MACHINE", "DEVICE"),
		ValidArgsFunction: a.complete(machineKind().names, func(context.Context, *client.Client) []string { return devices }),
		Short:             "Set the device that a machine boots from next",
		Long: `Set the device that a machine boots from next: pxe, http, disk or virtual-media. It is read back. The machine does not reboot,
and the boot mode (UEFI or BIOS) stays as it is.`,
		Example: `  holdfast machine boot-device m-123 pxe
  holdfast machine boot-device m-123 disk --persistent --uefi`,
		RunE: func(cmd *cobra.Command, args []string) error {
			device := strings.ToLower(strings.ReplaceAll(args[1], "_", "-"))
			if !slices.Contains(devices, device) {
				return usagef("DEVICE: %q is not one of %s", args[1], strings.Join(devices, ", "))
			}
			return d.run(a, cmd, args[0], "plan/boot-"+device)
		},
	}
	d.register(cmd)
	d.flag(cmd, "persistent", "for all boots from now on, not for the next one alone")
	d.flag(cmd, "uefi", "boot in UEFI mode, whatever the machine does now")
	return cmd
}

func (a *app) machineInspect() *cobra.Command {
	var d deed
	cmd := &cobra.Command{
		Use: "inspect MACHINE", Args: exactly("MACHINE"), ValidArgsFunction: a.complete(machineKind().names),
		Short: "Inspect a machine through its BMC and its host",
		Long: `Inspect a machine through its BMC and its host, and store the result as evidence of the run (-o yaml shows it). The machine's
phase does not change, even if the inspection fails.`,
		Example: "  holdfast machine inspect m-123 -o yaml",
		RunE: func(cmd *cobra.Command, args []string) error {
			return d.run(a, cmd, args[0], planInspect)
		},
	}
	d.register(cmd)
	return cmd
}
