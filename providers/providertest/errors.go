package providertest

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
)

func errorTests() map[string]func(*harness) {
	return map[string]func(*harness){
		"OfAMissingMachineAreClassed": func(h *harness) {
			if h.Missing == nil {
				h.Skip("setup has no Missing machine")
			}
			for name, call := range h.calls(h.Missing) {
				ctx, cancel := context.WithTimeout(h.ctx, h.Wait)
				h.classed(name, call(ctx))
				cancel()
			}
		},
		"OfASilentMachineAreTimeouts": func(h *harness) {
			if h.Silent == nil {
				h.Skip("setup has no Silent machine")
			}
			for name, call := range h.calls(h.Silent) {
				ctx, cancel := context.WithTimeout(h.ctx, 50*time.Millisecond)
				var err error
				if took := elapsed(func() { err = call(ctx) }); took > prompt {
					h.Fatalf("%s: returned %v after its deadline", name, took)
				}
				cancel()
				if c := h.classed(name, err); c != providers.Timeout {
					h.Fatalf("%s: class is %q, want timeout: the outcome is unknown", name, c)
				}
			}
		},
		"CancelReturnsPromptly": func(h *harness) {
			for name, call := range h.calls(h.Machine) {
				ctx, cancel := context.WithCancel(h.ctx)
				cancel()
				var err error
				if took := elapsed(func() { err = call(ctx) }); took > prompt {
					h.Fatalf("%s: returned %v after it was canceled", name, took)
				}
				if !errors.Is(err, context.Canceled) {
					h.Fatalf("%s: got %v, want %v", name, err, context.Canceled)
				}
			}
		},
		"SettleIsSane": func(h *harness) {
			s, ok := h.Provider.(providers.Settler)
			if !ok {
				h.Skip("provider has no Settle: its effects show at once")
			}
			if d := s.Settle(h.Machine); d < 0 || d > time.Hour {
				h.Fatalf("settle time is %v", d)
			}
		},
	}
}

// prompt bounds how long a call may need to notice that its context has ended. It allows for a busy
// machine, and is much shorter than the time that providers wait for an answer.
const prompt = 5 * time.Second

// calls returns one harmless call per capability of the provider.
func (h *harness) calls(m providers.Machine) map[string]func(context.Context) error {
	cs := make(map[string]func(context.Context) error)
	if p, ok := h.Provider.(providers.PowerController); ok {
		cs["read power"] = func(ctx context.Context) error { _, err := p.PowerState(ctx, m); return err }
		cs["press on"] = func(ctx context.Context) error {
			return p.SetPower(ctx, h.op("on"), m, providers.ActionOn)
		}
	}
	if p, ok := h.Provider.(providers.BootController); ok {
		cs["read boot device"] = func(ctx context.Context) error { _, err := p.BootDevice(ctx, m); return err }
	}
	if p, ok := h.Provider.(providers.MediaController); ok {
		cs["read media"] = func(ctx context.Context) error { _, err := p.Media(ctx, m); return err }
	}
	if p, ok := h.Provider.(providers.RemoteExecutor); ok {
		cs["start command"] = func(ctx context.Context) error {
			op := h.op("ssh")
			return p.StartCommand(ctx, op, m, op.Token(), providers.Command{Script: "true"})
		}
		cs["read command status"] = func(ctx context.Context) error {
			_, err := p.CommandStatus(ctx, m, h.op("ssh").Token(), 0)
			return err
		}
		cs["kill command"] = func(ctx context.Context) error {
			op := h.op("kill")
			return p.KillCommand(ctx, op, m, op.Token())
		}
	}
	if p, ok := h.Provider.(providers.NetConfigurator); ok {
		cs["read network status"] = func(ctx context.Context) error {
			_, err := p.NetworkStatus(ctx, m)
			return err
		}
	}
	return cs
}
