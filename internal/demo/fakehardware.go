package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/internal/cli/flagerror"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

// FakeHardwareCommand returns the command that runs a fake fleet in a process of its own, so
// that it outlives the peers and keeps a record of all effects.
func FakeHardwareCommand() *cobra.Command {
	var addr, file string
	var faults fake.Faults
	var latency, powerTime time.Duration
	cmd := &cobra.Command{
		Use:   "fake-hardware",
		Short: "Run a fleet of fake machines that counts every effect it sees",
		Long: `Run a fleet of fake machines. Machines appear when they are first used. Peers drive it with

  providers: {fake: {kind: fake, endpoint: "http://127.0.0.1:7450"}}

in their configuration. GET /effects answers every effect that really happened, in order.`,
		Example: `  holdfast fake-hardware --addr 127.0.0.1:7450 --latency 200ms --fail 0.01
  curl -s http://127.0.0.1:7450/effects`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var cfg fake.Config
			if file != "" {
				b, err := os.ReadFile(file)
				if err != nil {
					return flagerror.Invalid(fmt.Errorf("read fleet configuration: %w", err))
				}
				if cfg, err = fake.ParseConfig(b); err != nil {
					return flagerror.Invalid(fmt.Errorf("read fleet configuration %s: %w", file, err))
				}
			}
			for flag, use := range map[string]func(){
				"latency":    func() { cfg.Latency = fake.Duration(latency) },
				"power-time": func() { cfg.PowerTime = fake.Duration(powerTime) },
				"fail":       func() { cfg.Fail = faults.Fail },
				"hang":       func() { cfg.Hang = faults.Hang },
				"lie":        func() { cfg.Lie = faults.Lie },
			} {
				if cmd.Flags().Changed(flag) {
					use()
				}
			}
			if err := cfg.Validate(); err != nil {
				return flagerror.Invalid(fmt.Errorf("read fleet configuration: %w", err))
			}
			ln, err := new(net.ListenConfig).Listen(cmd.Context(), "tcp", addr)
			if err != nil {
				return fmt.Errorf("listen for --addr: %w", err)
			}
			cmd.PrintErrf("fake hardware at http://%s, effects at /effects\n", ln.Addr())
			// The caller needs the reason, even if the terminal was closed.
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGHUP)
			defer stop()
			site := &http.Server{Handler: fake.NewFleet(cfg).Handler(), ReadHeaderTimeout: 10 * time.Second}
			defer context.AfterFunc(ctx, func() { _ = site.Close() })() // it has no state to finish
			if err = site.Serve(ln); errors.Is(err, http.ErrServerClosed) {
				err = nil
			}
			cmd.PrintErrf("fake hardware ends: %v\n", cmp.Or(err, context.Cause(ctx)))
			return err
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&addr, "addr", "127.0.0.1:7450", "listen `address`")
	fs.StringVar(&file, "config", "", "YAML `file` with times and faults, for all machines and for each")
	fs.DurationVar(&latency, "latency", 0, "`time` before each effect")
	fs.DurationVar(&powerTime, "power-time", 0, "`time` from a press of the power button to its effect (default 20ms)")
	fs.Float64Var(&faults.Fail, "fail", 0, "`share` of effects that fail, 0 to 1")
	fs.StringSliceVar(&faults.Hang, "hang", nil, "`operations` that never answer, or *")
	fs.StringSliceVar(&faults.Lie, "lie", nil, "`operations` that are accepted and do nothing, or *")
	return cmd
}
