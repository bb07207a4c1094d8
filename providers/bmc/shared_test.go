package bmc_test

import (
	"context"
	"errors"
	"testing"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc"
	"github.com/holdfast-metal/holdfast/providers/bmc/redfishtest"
)

// byRef has accounts by reference.
type byRef map[string]bmc.Account

func (a byRef) Account(_ context.Context, m providers.Machine) (bmc.Account, error) {
	is, ok := a[m.GetSpec().GetBmcCredentialsRef()]
	if !ok {
		return is, providers.Errorf(providers.Auth, "find the account", "%w", errors.New("not found"))
	}
	return is, nil
}

// Machines at one address with different accounts do not share sessions, and a refusal of one
// account does not affect the other. The BMC still has one writer at a time.
func TestSessionIsNotShared(t *testing.T) {
	for name, protocol := range map[string]bmc.Protocol{"redfish": bmc.Redfish, "auto": bmc.Auto} {
		t.Run(name, func(t *testing.T) {
			s, url := serve(t, redfishtest.Config{})
			cfg := config()
			cfg.Protocol = protocol
			memory := bmc.NewInMemory()
			newProvider := func() *bmc.Provider {
				p, err := bmc.New(cfg, bmc.Deps{Credentials: byRef{"ours": {User: "admin", Password: "secret"},
					"same": {User: "admin", Password: "secret"}, "theirs": {User: "admin", Password: "a guess"}}, Memory: memory})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = p.Close(context.Background()) })
				return p
			}
			named := func(id, ref string) providers.Machine {
				m := machine(id, url)
				m.Spec.BmcCredentialsRef = ref
				return m
			}
			p, ours := newProvider(), named("m-1", "ours")
			if _, err := p.PowerState(t.Context(), ours); err != nil {
				t.Fatal(err)
			}
			for range 4 { // more often than a login may be refused
				for _, ref := range []string{"theirs", "none", ""} {
					err := p.SetPower(t.Context(), op("power"), named("m-2", ref), providers.ActionHardOff)
					if providers.ClassOf(err) != providers.Auth {
						t.Errorf("machine with account %q at the same address: got %v, want class %s", ref, err, providers.Auth)
					}
				}
				if _, err := p.PowerState(t.Context(), ours); err != nil {
					t.Errorf("machine with the valid account: %v", err)
				}
			}
			if got := s.Effects(""); len(got) != 0 {
				t.Errorf("got effects %v, want none", got)
			}
			if got := s.Logins(); got != 3 {
				t.Errorf("got %d logins, want one accepted and two refused", got)
			}
			if err := p.SetPower(t.Context(), op("power"), named("m-3", "same"), providers.ActionHardOff); err != nil ||
				s.Sessions() != 2 {
				t.Errorf("another name of a valid account: got %v, %d sessions, want a second one", err, s.Sessions())
			}
			next := newProvider() // of another leader, which ends both sessions
			for _, ref := range []string{"ours", "same"} {
				if _, err := next.PowerState(t.Context(), named("m-1", ref)); err != nil {
					t.Error(err)
				}
			}
			if err := next.Close(t.Context()); err != nil || s.Sessions() != 0 {
				t.Errorf("got %d remaining sessions (%v), want 0", s.Sessions(), err)
			}
		})
	}
}
