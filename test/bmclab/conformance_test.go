//go:build linux

package bmclab

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc"
	"github.com/holdfast-metal/holdfast/providers/providertest"
	"github.com/holdfast-metal/holdfast/test/bmclab/chassis"
)

// account returns the account of the lab's BMCs.
type account struct{ is bmc.Account }

func (a account) Account(context.Context, providers.Machine) (bmc.Account, error) {
	return a.is, nil
}

// remote returns a machine as a provider sees it.
func remote(id, endpoint string) providers.Machine {
	return &holdfastv1.Machine{MachineId: id, Labels: map[string]string{bmc.CipherLabel: "3"},
		Spec: &holdfastv1.MachineSpec{BmcEndpoint: endpoint}}
}

// provider returns a provider for the lab's BMCs.
func provider(t *testing.T, change func(*bmc.Config)) *bmc.Provider {
	t.Helper()
	c := bmc.Config{AllowHTTP: true, Settle: 500 * time.Millisecond, OpenTime: 200 * time.Millisecond,
		CommandTime: 30 * time.Second}
	if change != nil {
		change(&c)
	}
	p, err := bmc.New(c, bmc.Deps{Credentials: account{bmc.Account{User: User, Password: Password, Version: "1"}},
		Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = p.Close(ctx)
	})
	return p
}

// withHost adds the facts that a provider with access to the host would have.
type withHost struct {
	providers.Inspector
	m *Machine
}

func (w withHost) Inspect(ctx context.Context, m providers.Machine) (providers.Facts, error) {
	f, err := w.Inspector.Inspect(ctx, m)
	st := w.m.State()
	f.Reachable, f.ReachableReason = st.Up, "SerialLine"
	if st.Up {
		f.BootID = st.Since.String()
	}
	return f, err
}

// overIPMI and overRedfish are the capabilities that the BMCs are tested with.
type (
	overIPMI struct {
		providers.Provider
		providers.PowerController
		providers.Settler
		providers.Inspector
		providers.Console
	}
	overRedfish struct {
		providers.Provider
		providers.PowerController
		providers.Settler
		providers.Inspector
		providers.BootController
		providers.MediaController
	}
)

func TestConformanceOverIPMI(t *testing.T) {
	t.Parallel()
	l := open(t)
	m := l.Machine("m")
	b := l.IPMI(m)
	p := provider(t, nil)
	silent, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	missing := remote("missing", b.Endpoint) // it refuses this cipher suite
	missing.Labels[bmc.CipherLabel] = "17"
	s := providertest.Setup{Provider: overIPMI{p, p, p, withHost{p, m}, p}, Machine: remote("m", b.Endpoint),
		Wait: patience, Poll: 20 * time.Millisecond,
		Silent: remote("silent", "ipmi://"+silent.LocalAddr().String()), Missing: missing}
	providertest.Run(t, func(*testing.T) providertest.Setup { return s })
	if done := m.Done(); chassis.Presses(done, chassis.Off) == 0 || chassis.Presses(done, chassis.Soft) == 0 {
		t.Errorf("effects: got %+v, want presses", done)
	}
}

func TestConformanceOverRedfish(t *testing.T) {
	t.Parallel()
	l := open(t)
	m := l.Machine("m")
	b := l.Redfish([]*Machine{m})
	p := provider(t, nil)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	s := providertest.Setup{Provider: overRedfish{p, p, p, p, p, p}, Machine: remote("m", b.Endpoint), Wait: patience,
		Poll:   20 * time.Millisecond,
		Silent: remote("silent", "http://"+silent.Addr().String()), Missing: remote("missing",
			"http://127.0.0.1:1"), MediaURL: l.Files()}
	providertest.Run(t, func(*testing.T) providertest.Setup { return s })
	if done := m.Done(); chassis.Presses(done, chassis.Off) == 0 || chassis.Presses(done, chassis.Soft) == 0 {
		t.Errorf("effects: got %+v, want presses", done)
	}
}
