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

// quirky is a machine behind a BMC that misbehaves, with a new provider.
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
		q.Errorf("power: got %s (%v), want %s", got, err, want)
	}
}

func (q *quirky) class(name string, err error, want providers.Class) {
	q.Helper()
	if err == nil || providers.ClassOf(err) != want {
		q.Errorf("%s: got %v (class %s), want class %s", name, err, providers.ClassOf(err), want)
	}
}

// TestQuirks checks the effect of each quirk on the caller and on the machine.
func TestQuirks(t *testing.T) {
	t.Parallel()
	l := open(t)
	m := l.Machine("quirks")
	b := l.Redfish([]*Machine{m})
	for _, c := range []struct {
		name   string
		quirks redfishtest.Quirks
		check  func(q *quirky)
		want   []string // changes of the power
	}{
		{"EightSessionsOfWhichSomeAreOurs", redfishtest.Quirks{SessionLimit: 8}, func(q *quirky) {
			for i := range 8 {
				user := User
				if i < 3 {
					user = "another-user"
				}
				if err := q.b.OpenSession(q.Context(), user); err != nil {
					q.Fatal(err)
				}
			}
			q.read(providers.PowerOn)
			if n := q.sessions(); n != 4 {
				q.Errorf("got %d sessions, want ours and three of another client", n)
			}
		}, nil},
		{"EightSessionsOfOthers", redfishtest.Quirks{SessionLimit: 8}, func(q *quirky) {
			for range 5 { // three exist
				if err := q.b.OpenSession(q.Context(), "another-user"); err != nil {
					q.Fatal(err)
				}
			}
			_, err := q.p.PowerState(q.Context(), q.remote)
			q.class("no free session", err, providers.Transient)
			if n := q.sessions(); n != 8 {
				q.Errorf("got %d sessions, want those of others unchanged", n)
			}
			q.b.Kill() // which ends the sessions
			q.b.Start()
		}, nil},
		{"InPOST", redfishtest.Quirks{InPOST: true}, func(q *quirky) {
			q.read(providers.PowerOn)
			for _, a := range []providers.PowerAction{providers.ActionHardOff, providers.ActionOn} {
				if err := q.press(a); err != nil {
					q.Fatalf("press %s: %v", a, err)
				}
			}
			q.class("press during POST", q.press(providers.ActionHardOff), providers.Transient)
			q.m.Is("up", func(st chassis.State) bool { return st.Up })
			if err := q.p.SetBootDevice(q.Context(), providers.Op{}, q.remote, providers.BootDevice{Mode: "DISK"}); err != nil {
				q.Errorf("press after POST: %v", err)
			}
		}, []string{"off", "on"}},
		{"AcceptedAndNothingHappens", redfishtest.Quirks{Ignore: []string{"reset", "boot", "media"}}, func(q *quirky) {
			if err := q.press(providers.ActionHardOff); err != nil {
				q.Errorf("accepted press: %v", err)
			}
			q.read(providers.PowerOn) // a read returns the real state
			q.class("read the boot device back", q.p.SetBootDevice(q.Context(), providers.Op{}, q.remote,
				providers.BootDevice{Mode: "PXE"}), providers.Transient)
			q.class("read the media back", q.p.InsertMedia(q.Context(), providers.Op{}, q.remote, "http://192.0.2.1/x.iso"),
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
					q.Fatalf("read during the backoff: got %v", err)
				}
			}
			q.class("press during the backoff", q.press(providers.ActionHardOff), providers.Transient)
			q.set(redfishtest.Quirks{})
			l := q.m.l
			l.Until("the end of the backoff", func() bool {
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
				q.class("wrong password", err, providers.Auth)
			}
			q.read(providers.PowerOn) // the account must not be locked
		}, nil},
		{"DropsTheConnection", redfishtest.Quirks{}, func(q *quirky) {
			q.read(providers.PowerOn)
			q.set(redfishtest.Quirks{Drop: 1})
			q.class("lost answer", q.press(providers.ActionHardOff), providers.Timeout)
			q.set(redfishtest.Quirks{})
			q.read(providers.PowerOff) // the press took effect, once
		}, []string{"off"}},
		{"DropsLogins", redfishtest.Quirks{DropLogins: 2}, func(q *quirky) {
			l := q.m.l
			l.Until("a login", func() bool {
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
				t.Errorf("power changes: got %v, want %v", got, c.want)
			}
			if err := q.p.Close(t.Context()); err != nil {
				t.Errorf("close: %v", err)
			}
			if c.name != "EightSessionsOfWhichSomeAreOurs" && q.sessions() > had {
				t.Errorf("got %d sessions, want at most the earlier %d", q.sessions(), had)
			}
		})
	}
}
