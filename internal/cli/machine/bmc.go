package machine

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/kinds"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func machineBootDevice(a *app.App) *cobra.Command {
	devices := []string{"pxe", "http", "disk", "virtual-media"}
	flags := map[string]*bool{}
	cmd := machinePlanCommand(a, &cobra.Command{
		Use: "boot-device MACHINE DEVICE", Args: app.Exactly("MACHINE", "DEVICE"),
		ValidArgsFunction: a.Complete(kinds.Machine().Names,
			func(context.Context, *client.Client) []string { return devices }),
		Short: "Set the device that a machine boots from next",
		Long: `Set the device that a machine boots from next: pxe, http, disk or virtual-media. It is read back. The machine does not reboot,
and the boot mode (UEFI or BIOS) stays as it is, unless --uefi is set.`,
		Example: `  holdfast machine boot-device m-123 pxe
  holdfast machine boot-device m-123 disk --persistent --uefi`,
	}, machinePlan{plan: func(args []string) (string, map[string]string, error) {
		device := strings.ToLower(strings.ReplaceAll(args[1], "_", "-"))
		if !slices.Contains(devices, device) {
			return "", nil, app.Usagef("DEVICE: %q is not one of %s", args[1], strings.Join(devices, ", "))
		}
		return "plan/boot-" + device, switches(flags), nil
	}})
	flags["persistent"] = cmd.Flags().Bool("persistent", false, "set it for all boots, not only for the next one")
	flags["uefi"] = cmd.Flags().Bool("uefi", false, "boot in UEFI mode, whatever mode is set now")
	return cmd
}

func machineInspect(a *app.App) *cobra.Command {
	return machinePlanCommand(a, &cobra.Command{
		Use: "inspect MACHINE", Args: app.Exactly("MACHINE"),
		Short: "Inspect a machine through its BMC and its host",
		Long: `Inspect a machine through its BMC and its host, and store the result as evidence of the run (-o yaml shows it). The machine's
phase does not change, even if the inspection fails.`,
		Example: "  holdfast machine inspect m-123 -o yaml",
	}, machinePlan{plan: fixedPlan("plan/inspect")})
}

func machineIdentify(a *app.App) *cobra.Command {
	var off bool
	var long time.Duration
	cmd := machinePlanCommand(a, &cobra.Command{
		Use: "identify MACHINE", Args: app.Exactly("MACHINE"),
		Short: "Switch a machine's locator light on or off",
		Long: `Switch a machine's locator light on, or off with --off. With --for it is switched off again after that time. The run lasts as
long and blocks other runs of the machine: cancel it when you have found the machine. The machine's phase does not change.`,
		Example: `  holdfast machine identify m-123
  holdfast machine identify m-123 --for 5m --detach
  holdfast machine identify m-123 --off`,
	}, machinePlan{plan: func([]string) (string, map[string]string, error) {
		switch {
		case off && long != 0:
			return "", nil, app.Usagef("give either --for or --off")
		case long < 0 || long > time.Hour:
			return "", nil, app.Usagef("--for: %s: give a time of 1h at most", long)
		case off:
			return "plan/identify-off", nil, nil
		case long > 0:
			return "plan/identify-on", map[string]string{"for": long.String()}, nil
		}
		return "plan/identify-on", nil, nil
	}})
	cmd.Flags().BoolVar(&off, "off", false, "switch it off")
	cmd.Flags().DurationVar(&long, "for", 0,
		"switch it off again after this time, e.g. 5m; at most 1h (default: it stays on)")
	return cmd
}

func machineSEL(a *app.App) *cobra.Command {
	var clearLog bool
	var log string
	cmd := machinePlanCommand(a, &cobra.Command{
		Use: "sel MACHINE", Aliases: []string{"events"}, Args: app.Exactly("MACHINE"),
		Short: "Read the event log of a machine's BMC",
		Long: `Read the event log of a machine's BMC, oldest entry first: time, severity, sensor, message. The entries are stored in the run's
log. --clear clears it on the BMC once the entries are stored; entries written between the two are lost. A BMC may have several logs:
the one of the hardware is read and cleared, unless --log names another one. Security and audit logs are neither read nor cleared.`,
		Example: `  holdfast machine sel m-123
  holdfast machine sel m-123 --clear
  holdfast machine sel m-123 --clear --log PlatformLog`,
	}, machinePlan{
		plan: func([]string) (string, map[string]string, error) {
			var params map[string]string
			if log != "" {
				params = map[string]string{"log": log}
			}
			if clearLog {
				return "plan/sel-clear", params, nil
			}
			return "plan/sel", params, nil
		},
		show: func(ctx context.Context, c *client.Client, _ *output.Flags, r *holdfastv1.Run) error {
			err := c.ReadLogs(ctx, r.GetRunId(), 0, func(chunk *holdfastv1.LogChunk) error {
				if chunk.GetStream() != "events" {
					return nil
				}
				_, err := a.Out.Write(chunk.GetData())
				return err
			})
			a.Note("%s", r.GetSteps()[0].GetMessage())
			return app.Failed(err, "read log of run %s", r.GetRunId())
		},
	})
	cmd.Flags().BoolVar(&clearLog, "clear", false, "clear the event log after reading it")
	cmd.Flags().StringVar(&log, "log", "", "`id` of the log, as the BMC names it, such as PlatformLog (default: the log of the hardware)")
	return cmd
}

func machineBMCReset(a *app.App) *cobra.Command {
	return machinePlanCommand(a, &cobra.Command{
		Use: "bmc-reset MACHINE", Args: app.Exactly("MACHINE"),
		Short: "Restart a machine's BMC",
		Long: `Restart a machine's BMC and wait until it answers again. The host keeps running. A BMC is restarted at most once an hour, and
not while a press of the power button may still be in progress.`,
		Example: "  holdfast machine bmc-reset m-123",
	}, machinePlan{plan: fixedPlan("plan/bmc-reset")})
}

func machineMedia(a *app.App) *cobra.Command {
	insert := machinePlanCommand(a, &cobra.Command{
		Use: "insert MACHINE URL", Args: app.Exactly("MACHINE", "URL"),
		Short: "Insert an image into a machine's virtual drive",
		Long: `Insert an image into a machine's virtual drive and verify it. An image that is already in the drive is ejected first. The BMC
loads the image itself, so it must be able to reach the URL. The URL is recorded: put no password into it.`,
		Example: `  holdfast machine media insert m-123 https://images.example/rescue.iso
  holdfast machine boot-device m-123 virtual-media && holdfast machine power cycle m-123`,
	}, machinePlan{plan: func(args []string) (string, map[string]string, error) {
		return "plan/media-insert", map[string]string{"url": args[1]}, nil
	}})
	eject := machinePlanCommand(a, &cobra.Command{
		Use: "eject MACHINE", Args: app.Exactly("MACHINE"),
		Short: "Eject the image from a machine's virtual drive", Example: "  holdfast machine media eject m-123",
	}, machinePlan{plan: fixedPlan("plan/media-eject")})
	return app.Parent(&cobra.Command{
		Use: "media", Short: "Manage a machine's virtual media",
		Example: `  holdfast machine media insert m-123 https://images.example/rescue.iso
  holdfast machine media eject m-123`,
	}, insert, eject)
}

func machineInventory(a *app.App) *cobra.Command {
	return machinePlanCommand(a, &cobra.Command{
		Use: "inventory MACHINE", Args: app.Exactly("MACHINE"),
		Short: "Read a machine's hardware inventory from its BMC",
		Long: `Read a machine's processors, memory, disks, network ports, serial numbers and firmware from its BMC. The inventory is stored and
shown by 'machine get' beside the facts of operators and agents, which it does not overwrite. Changes are in the history.`,
		Example: "  holdfast machine inventory m-123",
	}, machinePlan{
		plan: fixedPlan("plan/inventory"),
		show: func(ctx context.Context, c *client.Client, o *output.Flags, r *holdfastv1.Run) error {
			m, err := kinds.GetMachine(ctx, c, r.GetMachineId())
			if err != nil {
				return err
			}
			a.Note("%s", r.GetSteps()[0].GetMessage())
			return output.PrintTable(a, o, hardwareTable(m, a.Now()))
		},
	})
}
