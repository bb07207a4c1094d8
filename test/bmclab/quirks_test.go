//go:build linux

package bmclab

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc"
	"github.com/holdfast-metal/holdfast/providers/bmc/redfishtest"
	"github.com/holdfast-metal/holdfast/test/bmclab/chassis"
)

// quirky is a machine behind a BMC that misbehaves, and a provider that has not met it before.
type quirky struct {
	*testing.T
	m      *Machine
	b      *BMC
	p      *bmc.Provider
	remote providers.Machine
}

func (q *quirky) set(quirks redfishtest.Quirks) {
	q.Helper()
	if err := q.b.Quirks(q.Context(), quirks); err != nil {
		q.Fatal(err)
	}
}

func (q *quirky) sessions() int {
	q.Helper()
	seen, err := q.b.Seen(q.Context())
	if err != nil {
		q.Fatal(err)
	}
	return seen.Sessions
}

func (q *quirky) press(a providers.PowerAction) error {
	return q.p.SetPower(q.Context(), providers.Op{}, q.remote, a)
}

func (q *quirky) read(want providers.PowerState) {
	q.Helper()
	if got, err := q.p.PowerState(q.Context(), q.remote); err != nil || got != want {
		q.Errorf("power is %s (%v), want %s", got, err, want)
	}
}

func (q *quirky) class(what string, err error, want providers.Class) {
	q.Helper()
	if err == nil || providers.ClassOf(err) != want {
		q.Errorf("%s: got %v (class %s), want class %s", what, err, providers.ClassOf(err), want)
	}
}

// Each way to misbehave, with what has to come of it: for the caller, and for the machine.
func TestQuirks(t *testing.T) {
	t.Parallel()
	l := open(t)
	m := l.Machine("quirks")
	b := l.Redfish([]*Machine{m})
	for _, c := range []struct {
		name   string
		quirks redfishtest.Quirks
		check  func(q *quirky)
		want   []string // what became of the power
	}{
		{"EightSessionsOfWhichSomeAreOurs", redfishtest.Quirks{SessionLimit: 8}, func(q *quirky) {
			for i := range 8 {
				user := User
				if i < 3 {
					user = "somebody"
				}
				if err := q.b.OpenSession(q.Context(), user); err != nil {
					q.Fatal(err)
				}
			}
			q.read(providers.PowerOn)
			if n := q.sessions(); n != 4 {
				q.Errorf("%d sessions, want ours and the three of somebody else", n)
			}
		}, nil},
		{"EightSessionsOfOthers", redfishtest.Quirks{SessionLimit: 8}, func(q *quirky) {
			for range 5 { // three are there
				if err := q.b.OpenSession(q.Context(), "somebody"); err != nil {
					q.Fatal(err)
				}
			}
			_, err := q.p.PowerState(q.Context(), q.remote)
			q.class("no room", err, providers.Transient)
			if n := q.sessions(); n != 8 {
				q.Errorf("%d sessions, want those of others untouched", n)
			}
			q.b.Kill() // and with them they are gone
			q.b.Start()
		}, nil},
		{"InPOST", redfishtest.Quirks{InPOST: true}, func(q *quirky) {
			q.read(providers.PowerOn)
			for _, a := range []providers.PowerAction{providers.ActionHardOff, providers.ActionOn} {
				if err := q.press(a); err != nil {
					q.Fatalf("press %s: %v", a, err)
				}
			}
			q.class("a press in POST", q.press(providers.ActionHardOff), providers.Transient)
			q.m.Is("up", func(st chassis.State) bool { return st.Up })
			if err := q.p.SetBootDevice(q.Context(), providers.Op{}, q.remote, providers.BootDevice{Mode: "DISK"}); err != nil {
				q.Errorf("after POST: %v", err)
			}
		}, []string{"off", "on"}},
		{"AcceptedAndNothingHappens", redfishtest.Quirks{Ignore: []string{"reset", "boot", "media"}}, func(q *quirky) {
			if err := q.press(providers.ActionHardOff); err != nil {
				q.Errorf("a press that is accepted: %v", err)
			}
			q.read(providers.PowerOn) // who asks is told the truth
			q.class("the boot device reads back", q.p.SetBootDevice(q.Context(), providers.Op{}, q.remote,
				providers.BootDevice{Mode: "PXE"}), providers.Transient)
			q.class("the media read back", q.p.InsertMedia(q.Context(), providers.Op{}, q.remote, "http://192.0.2.1/x.iso"),
				providers.Transient)
		}, nil},
		{"HangsAfterThree", redfishtest.Quirks{HangAfter: 3}, func(q *quirky) {
			for end := time.Now().Add(patience); ; {
				ctx, cancel := context.WithTimeout(q.Context(), 100*time.Millisecond)
				_, err := q.p.PowerState(ctx, q.remote)
				cancel()
				if bmc.AdviceOf(err) != "" {
					break
				}
				if time.Now().After(end) {
					q.Fatalf("it is not left alone: %v", err)
				}
			}
			q.class("a press while it is left alone", q.press(providers.ActionHardOff), providers.Transient)
			q.set(redfishtest.Quirks{})
			l := q.m.l
			l.Until("it is used again", func() bool {
				_, err := q.p.PowerState(q.Context(), q.remote)
				return err == nil
			})
		}, nil},
		{"LocksAfterThreeBadLogins", redfishtest.Quirks{LockAfter: 3}, func(q *quirky) {
			bad, err := bmc.New(bmc.Config{AllowHTTP: true},
				bmc.Deps{Credentials: account{bmc.Account{User: User, Password: "wrong"}}})
			if err != nil {
				q.Fatal(err)
			}
			for range 10 {
				_, err := bad.PowerState(q.Context(), q.remote)
				q.class("a wrong password", err, providers.Auth)
			}
			q.read(providers.PowerOn) // the account is not locked
		}, nil},
		{"DropsTheConnection", redfishtest.Quirks{}, func(q *quirky) {
			q.read(providers.PowerOn)
			q.set(redfishtest.Quirks{Drop: 1})
			q.class("an answer that is lost", q.press(providers.ActionHardOff), providers.Timeout)
			q.set(redfishtest.Quirks{})
			q.read(providers.PowerOff) // it was done, and once
		}, []string{"off"}},
		{"DropsLogins", redfishtest.Quirks{DropLogins: 2}, func(q *quirky) {
			l := q.m.l
			l.Until("it is logged in", func() bool {
				_, err := q.p.PowerState(q.Context(), q.remote)
				return err == nil
			})
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := &quirky{T: t, m: m, b: b, p: provider(t, nil), remote: remote("m", b.Endpoint)}
			if !m.State().On {
				if err := m.Press("lab", chassis.On); err != nil {
					t.Fatal(err)
				}
			}
			m.Is("up", func(st chassis.State) bool { return st.Up })
			before, had := len(m.Done()), q.sessions()
			q.set(c.quirks)
			c.check(q)
			q.set(redfishtest.Quirks{})
			if got := changes(m.Done()[before:]); !slices.Equal(got, c.want) {
				t.Errorf("power went %v, want %v", got, c.want)
			}
			if err := q.p.Close(t.Context()); err != nil {
				t.Errorf("close: %v", err)
			}
			if c.name != "EightSessionsOfWhichSomeAreOurs" && q.sessions() > had {
				t.Errorf("%d sessions are left, want at most the %d from before", q.sessions(), had)
			}
		})
	}
}
