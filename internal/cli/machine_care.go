package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// careVerb returns a command that runs a plan on a machine. plan may read the flags and the
// arguments after MACHINE.
func (a *app) careVerb(d *deed, cmd *cobra.Command, plan func(args []string) (string, error)) *cobra.Command {
	cmd.ValidArgsFunction = a.complete(machineKind().names)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id, err := plan(args)
		if err != nil {
			return err
		}
		return d.run(a, cmd, args[0], id)
	}
	d.register(cmd)
	return cmd
}

func (a *app) machineIdentify() *cobra.Command {
	var d deed
	var off bool
	var long time.Duration
	cmd := a.careVerb(&d, &cobra.Command{
		Use: "identify MACHINE", Args: exactly("MACHINE"),
		Short: "Switch a machine's locator light on or off",
		Long: `Switch a machine's locator light on, or off with --off. With --for it is switched off again after that time. The run lasts as
long and blocks other runs of the machine: cancel it when you have found the machine. The machine's phase does not change.`,
		Example: `  holdfast machine identify m-123
  holdfast machine identify m-123 --for 5m --detach
  holdfast machine identify m-123 --off`,
	}, func([]string) (string, error) {
		switch {
		case off && long != 0:
			return "", usagef("give either --for or --off")
		case long < 0 || long > time.Hour:
			return "", usagef("--for: %s: give a time of 1h at most", long)
		case off:
			return "plan/identify-off", nil
		case long > 0:
			d.value("for", long.String())
		}
		return "plan/identify-on", nil
	})
	cmd.Flags().BoolVar(&off, "off", false, "switch it off")
	cmd.Flags().DurationVar(&long, "for", 0,
		"switch it off again after this time, e.g. 5m; at most 1h (default: it stays on)")
	return cmd
}

func (a *app) machineSEL() *cobra.Command {
	var d deed
	var clearLog bool
	cmd := a.careVerb(&d, &cobra.Command{
		Use: "sel MACHINE", Aliases: []string{"events"}, Args: exactly("MACHINE"),
		Short: "Read the event log of a machine's BMC",
		Long: `Read the event log of a machine's BMC, oldest entry first: time, severity, sensor, message. The entries are stored in the run's
log. --clear clears it on the BMC once the entries are stored; entries written between the two are lost.`,
		Example: `  holdfast machine sel m-123
  holdfast machine sel m-123 --clear`,
	}, func([]string) (string, error) {
		if clearLog {
			return "plan/sel-clear", nil
		}
		return "plan/sel", nil
	})
	d.show = func(ctx context.Context, c *client.Client, r *holdfastv1.Run) error {
		err := c.ReadLogs(ctx, r.GetRunId(), 0, func(chunk *holdfastv1.LogChunk) error {
			if chunk.GetStream() != "events" {
				return nil
			}
			_, err := a.Out.Write(chunk.GetData())
			return err
		})
		a.note("%s", r.GetSteps()[0].GetMessage())
		return failed(err, "read log of run %s", r.GetRunId())
	}
	cmd.Flags().BoolVar(&clearLog, "clear", false, "clear the event log after reading it")
	return cmd
}

func (a *app) machineBMCReset() *cobra.Command {
	var d deed
	return a.careVerb(&d, &cobra.Command{
		Use: "bmc-reset MACHINE", Args: exactly("MACHINE"),
		Short: "Restart a machine's BMC",
		Long: `Restart a machine's BMC and wait until it answers again. The host keeps running. A BMC is restarted at most once an hour, and
not while a press of the power button may still be in progress.`,
		Example: "  holdfast machine bmc-reset m-123",
	}, func([]string) (string, error) { return "plan/bmc-reset", nil })
}

func (a *app) machineMedia() *cobra.Command {
	var in, out deed
	insert := a.careVerb(&in, &cobra.Command{
		Use: "insert MACHINE URL", Args: exactly("MACHINE", "URL"),
		Short: "Insert an image into a machine's virtual drive",
		Long: `Insert an image into a machine's virtual drive and verify it. An image that is already in the drive is ejected first. The BMC
loads the image itself, so it must be able to reach the URL. The URL is recorded: put no password into it.`,
		Example: `  holdfast machine media insert m-123 https://images.example/rescue.iso
  holdfast machine boot-device m-123 virtual-media && holdfast machine power cycle m-123`,
	}, func(args []string) (string, error) {
		in.value("url", args[1])
		return "plan/media-insert", nil
	})
	eject := a.careVerb(&out, &cobra.Command{
		Use: "eject MACHINE", Args: exactly("MACHINE"),
		Short: "Eject the image from a machine's virtual drive", Example: "  holdfast machine media eject m-123",
	}, func([]string) (string, error) { return "plan/media-eject", nil })
	return parent(&cobra.Command{
		Use: "media", Short: "Manage a machine's virtual media",
		Example: `  holdfast machine media insert m-123 https://images.example/rescue.iso
  holdfast machine media eject m-123`,
	}, insert, eject)
}

func (a *app) machineInventory() *cobra.Command {
	var d deed
	cmd := a.careVerb(&d, &cobra.Command{
		Use: "inventory MACHINE", Args: exactly("MACHINE"),
		Short: "Read a machine's hardware inventory from its BMC",
		Long: `Read a machine's processors, memory, disks, network ports, serial numbers and firmware from its BMC. The inventory is stored and
shown by 'machine get' beside the facts of operators and agents, which it does not overwrite. Changes are in the history.`,
		Example: "  holdfast machine inventory m-123",
	}, func([]string) (string, error) { return "plan/inventory", nil })
	d.show = func(ctx context.Context, c *client.Client, r *holdfastv1.Run) error {
		m, err := getMachine(ctx, c, r.GetMachineId())
		if err != nil {
			return err
		}
		a.note("%s", r.GetSteps()[0].GetMessage())
		return a.table(&d.output, hardwareTable(m, a.Now()))
	}
	return cmd
}
