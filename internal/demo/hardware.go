package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

// planID is the id of the plan of all runs.
const planID = "plan/repave-join"

// seed makes the same calls fail in each demo.
const seed = 7

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
		Seed:        seed,
		PowerTime:   fake.Duration(50 * time.Millisecond),
		BootTime:    fake.Duration(600 * time.Millisecond),
		InstallTime: fake.Duration(2 * time.Second),
		JoinTime:    fake.Duration(500 * time.Millisecond),
		Machines:    make(map[string]fake.Faults, len(machines)),
	}
	fail := 0.05
	if len(machines) > 50 {
		fail = 0.02 // to keep the screen readable
	}
	for i, m := range machines {
		latency := 20 + time.Duration(i*37%120)
		cfg.Machines[m.GetMachineId()] = fake.Faults{Latency: fake.Duration(latency * time.Millisecond), Fail: fail,
			OnlyFirst: 1}
	}
	return cfg
}

// hardware serves the fake fleet over HTTP.
type hardware struct {
	fleet *fake.Fleet
	ln    net.Listener
}

func newHardware(ctx context.Context, machines []*holdfastv1.Machine) (*hardware, error) {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the fake hardware: %w", err)
	}
	return &hardware{fleet: fake.NewFleet(fleetConfig(machines)), ln: ln}, nil
}

func (h *hardware) url() string { return "http://" + h.ln.Addr().String() }

// Run serves until ctx ends.
func (h *hardware) Run(ctx context.Context) error {
	s := &http.Server{Handler: h.fleet.Handler(), ReadHeaderTimeout: 10 * time.Second}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		if err := s.Serve(h.ln); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve the fake hardware on %s: %w", h.ln.Addr(), err)
		}
		return nil
	})
	g.Go(func() error {
		<-ctx.Done()
		return s.Close() // the peers are being stopped, too
	})
	return g.Wait()
}
