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
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

// planID is the id of the plan of all runs.
const planID = "plan/repave-join"

// inventory returns n machines to register. Their ids have leading zeros, so that they sort.
func inventory(n int) []*holdfastv1.Machine {
	width := max(2, len(fmt.Sprint(n)))
	all := make([]*holdfastv1.Machine, n)
	for i := range all {
		no := i + 1
		all[i] = &holdfastv1.Machine{
			MachineId: fmt.Sprintf("m-%0*d", width, no),
			Labels:    map[string]string{"fleet": "demo"},
			Spec: &holdfastv1.MachineSpec{
				Provider:         "fake",
				Location:         "demo",
				Rack:             fmt.Sprintf("r%d", i/12+1),
				Serial:           fmt.Sprintf("DEMO-%04d", no),
				BmcEndpoint:      fmt.Sprintf("10.77.%d.%d", no>>8, no&0xff),
				MacAddresses:     []string{fmt.Sprintf("02:00:00:00:%02x:%02x", no>>8, no&0xff)},
				TargetClusterRef: "demo",
			},
		}
	}
	return all
}

// fleetConfig returns quick hardware with some faults. Only the first call of an operation on a
// machine can fail, so that no step exhausts its retries with any seed.
func fleetConfig(machines []*holdfastv1.Machine) fake.Config {
	cfg := fake.Config{
		Seed:        7, // the same calls fail in each demo
		PowerTime:   fake.Duration(50 * time.Millisecond),
		BootTime:    fake.Duration(600 * time.Millisecond),
		InstallTime: fake.Duration(2 * time.Second),
		JoinTime:    fake.Duration(500 * time.Millisecond),
		Machines:    make(map[string]fake.Faults, len(machines)),
	}
	for i, m := range machines {
		latency := 20 + time.Duration(i*37%120)
		cfg.Machines[m.GetMachineId()] = fake.Faults{Latency: fake.Duration(latency * time.Millisecond), Fail: 0.05,
			OnlyFirst: 1}
	}
	return cfg
}

// hardware is a fake fleet and its listener.
type hardware struct {
	fleet *fake.Fleet
	ln    net.Listener
}

func newHardware(ctx context.Context, addr string, cfg fake.Config) (*hardware, error) {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for the fake hardware: %w", err)
	}
	return &hardware{fleet: fake.NewFleet(cfg), ln: ln}, nil
}

func (h *hardware) url() string { return "http://" + h.ln.Addr().String() }

// Run serves until ctx ends.
func (h *hardware) Run(ctx context.Context) error {
	s := &http.Server{Handler: h.fleet.Handler(), ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = s.Close() })() // it has no state to finish
	if err := s.Serve(h.ln); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the fake hardware on %s: %w", h.ln.Addr(), err)
	}
	return nil
}

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
			h, err := newHardware(cmd.Context(), addr, cfg)
			if err != nil {
				return err
			}
			cmd.PrintErrf("fake hardware at %s, effects at /effects\n", h.url())
			// The caller needs the reason, even if the terminal was closed.
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGHUP)
			defer stop()
			err = h.Run(ctx)
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
