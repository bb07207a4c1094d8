package machine

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/kinds"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	"github.com/holdfast-metal/holdfast/internal/describe"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func machinePower(a *app.App) *cobra.Command {
	verb := func(name, short, long string) *cobra.Command {
		flags := map[string]*bool{}
		cmd := machinePlanCommand(a, &cobra.Command{
			Use: name + " MACHINE", Args: app.Exactly("MACHINE"), Short: short, Long: long,
			Example: "  holdfast machine power " + name + " m-123",
		}, machinePlan{plan: func([]string) (string, map[string]string, error) {
			return "plan/power-" + name, switches(flags), nil
		}, asks: name != "on"})
		if name != "on" {
			flags["force"] = cmd.Flags().Bool("force", false,
				"press the button at once, without asking the operating system first")
		}
		return cmd
	}
	return app.Parent(&cobra.Command{
		Use: "power", Short: "Turn a machine on or off",
		Long: `Turn a machine on or off through its BMC. 'on', 'off' and 'cycle' are runs: each is recorded, is refused while another run is
active, and ends once the power was seen to change. 'status' shows the power that the last poll has seen, and starts no run.`,
		Example: `  holdfast machine power status m-123
  holdfast machine power cycle m-123 --force`,
	}, machinePowerStatus(a),
		verb("on", "Turn the power on", ""),
		verb("off", "Turn the power off",
			"Turn the power off. The operating system is asked to shut down; if it does not, the power is cut.\n"+askInService),
		verb("cycle", "Turn the power off and on",
			"Turn the power off, wait until it is off, and turn it on. 'run start --type REBOOT' also waits for the "+
				"host.\n"+askInService))
}

const askInService = "The command asks for confirmation if the machine is in service: its id. " +
	"Without a terminal it requires --yes."

func machinePowerStatus(a *app.App) *cobra.Command {
	var o output.Flags
	cmd := &cobra.Command{
		Use: "status MACHINE", Args: app.Exactly("MACHINE"), ValidArgsFunction: a.Complete(kinds.Machine().Names),
		Short: "Show whether the power is on",
		Long: `Show whether the power is on, as the last poll of the BMC has seen it (every 30 s, and after each run), and how old that is.
No run is started. 'machine inspect' reads the BMC at once.`,
		Example: `  holdfast machine power status m-123
  holdfast machine power status m-123 -o jsonpath=status.power
  holdfast machine list --filter 'rack = "r7" AND power = OFF'`,
		RunE: a.Online(func(ctx context.Context, c *client.Client, args []string) error {
			m, err := kinds.GetMachine(ctx, c, args[0])
			if err != nil {
				return err
			}
			if !o.Table() {
				return output.PrintOne(a, &o, kinds.Machine(), m)
			}
			_, err = fmt.Fprintln(a.Out, powerSentence(m, a.Now()))
			return err
		}),
	}
	o.Register(cmd)
	return cmd
}

// powerSentence states the power of a machine, its cause if it is off, and its age.
func powerSentence(m *holdfastv1.Machine, now time.Time) string {
	s := m.GetStatus()
	text := m.GetMachineId() + ": power " + describe.Power(s)
	switch s.GetPower() {
	case holdfastv1.PowerState_POWER_STATE_UNSPECIFIED:
		return m.GetMachineId() + ": this peer does not report the power: upgrade it"
	case holdfastv1.PowerState_OFF:
		text = m.GetMachineId() + ": " + describe.PoweredOff(s, now)
	}
	seen := app.Age(now, s.GetPowerObservedAt())
	if seen == "" {
		return text + ", never observed"
	}
	return text + ", observed " + seen
}
