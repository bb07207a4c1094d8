package bmc_test

import (
	"context"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc"
	"github.com/holdfast-metal/holdfast/providers/bmc/redfishtest"
	"github.com/holdfast-metal/holdfast/providers/providertest"
)

// persistent is a provider whose calls are repeated while they fail for now, as the executor
// repeats a step.
type persistent struct{ withoutConsole }

// tries bounds the repetitions of one call.
const tries = 6

func again(call func() error) error {
	err := call()
	for range tries {
		if err == nil || providers.ClassOf(err) != providers.Transient {
			break
		}
		err = call()
	}
	return err
}

func again2[T any](call func() (T, error)) (v T, err error) {
	err = again(func() (err error) {
		v, err = call()
		return err
	})
	return v, err
}

func (p persistent) PowerState(ctx context.Context, m providers.Machine) (providers.PowerState, error) {
	return again2(func() (providers.PowerState, error) { return p.withoutConsole.PowerState(ctx, m) })
}

func (p persistent) SetPower(ctx context.Context, op providers.Op, m providers.Machine, a providers.PowerAction) error {
	return again(func() error { return p.withoutConsole.SetPower(ctx, op, m, a) })
}

func (p persistent) SetBootDevice(
	ctx context.Context, op providers.Op, m providers.Machine, b providers.BootDevice,
) error {
	return again(func() error { return p.withoutConsole.SetBootDevice(ctx, op, m, b) })
}

func (p persistent) InsertMedia(ctx context.Context, op providers.Op, m providers.Machine, url string) error {
	return again(func() error { return p.withoutConsole.InsertMedia(ctx, op, m, url) })
}

func (p persistent) EjectMedia(ctx context.Context, op providers.Op, m providers.Machine) error {
	return again(func() error { return p.withoutConsole.EjectMedia(ctx, op, m) })
}

func (p persistent) ClearEvents(ctx context.Context, op providers.Op, m providers.Machine, log string) error {
	return again(func() error { return p.withoutConsole.ClearEvents(ctx, op, m, log) })
}

func (p persistent) Identify(ctx context.Context, op providers.Op, m providers.Machine, on bool) error {
	return again(func() error { return p.withoutConsole.Identify(ctx, op, m, on) })
}

// unseenHost is a provider that does not see whether the host has booted.
type unseenHost struct {
	providers.Provider
	providers.PowerController
	providers.BootController
	providers.MediaController
	providers.Settler
	providers.Identifier
	providers.EventLog
	providers.BMCResetter
	providers.InventoryReader
	providers.HealthReader
}

// TestConformanceInModes runs the conformance suite against a BMC in each of its modes.
func TestConformanceInModes(t *testing.T) {
	t.Parallel()
	for _, mode := range redfishtest.Modes() {
		t.Run(mode.Name, func(t *testing.T) {
			t.Parallel()
			providertest.Run(t, func(t *testing.T) providertest.Setup { return inMode(t, mode) })
		})
	}
}

// inMode returns the setup of a BMC in a mode.
func inMode(t *testing.T, mode redfishtest.Mode) providertest.Setup {
	t.Helper()
	const quick = 20 * time.Millisecond
	c := redfishtest.Config{PowerTime: quick, PostTime: quick, BootTime: quick}
	if mode.Config != nil {
		mode.Config(&c)
	}
	l := newLab(t, c, func(c *bmc.Config) {
		c.Protocol = bmc.Redfish
		if mode.TLS {
			c.TLS = "insecure"
		}
	})
	if mode.Quirks != nil {
		l.s.Set(mode.Quirks)
	}
	if mode.TLS { // of httptest, for example.com
		h := httptest.NewTLSServer(l.s.Handler())
		t.Cleanup(h.Close)
		l.url = h.URL
	}
	l.m = machine("m-1", l.url+mode.Endpoint)
	all := withoutConsole{l.p, l.p, l.p, l.p, l.p, l.p, l.p, l.p, l.p, l.p, l.p}
	p := persistent{all}
	if _, err := p.PowerState(t.Context(), l.m); err != nil {
		t.Fatalf("first reading: %v", err)
	}
	s := providertest.Setup{
		Provider: p, Machine: l.m, Wait: 20 * time.Second, Poll: 5 * time.Millisecond,
		MediaURL: "http://192.0.2.1/boot.iso", ClearLog: true, ResetBMC: true, NoSoftOff: mode.NoSoftOff,
		Broken: func(context.Context) providers.Problem {
			l.s.Break(redfishtest.Disk1)
			return providers.Problem{Kind: providers.DiskFailed, Text: "disk 1 failed"}
		},
	}
	if mode.NoBoot {
		s.Provider = unseenHost{p, p, p, p, p, p, p, p, p, p}
	}
	return s
}
