package bmc_test

import (
	"context"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc"
	"github.com/holdfast-metal/holdfast/providers/bmc/redfishtest"
)

// autoLab is a BMC that speaks both protocols, and an endpoint that does not say which. asked gives
// what IPMI was asked for.
func autoLab(t *testing.T) (l *lab, key string, asked func() string) {
	t.Helper()
	s := redfishtest.New(redfishtest.Config{})
	h := httptest.NewTLSServer(s.Handler())
	t.Cleanup(func() {
		s.Close()
		h.Close()
	})
	tool, asked := ipmitool(t)
	l = &lab{t: t, s: s, m: machine("m-1", strings.TrimPrefix(h.URL, "https://")),
		acct: &accounts{is: bmc.Account{User: "admin", Password: "secret"}}, mem: bmc.NewInMemory(), ctx: t.Context()}
	l.p = l.provider(func(c *bmc.Config) {
		c.TLS, c.Ipmitool, c.RequestTime, c.CommandTime = "insecure", tool, 2*time.Second, 30*time.Second
	})
	return l, h.URL, asked
}

// ipmitool returns the path of one that needs no BMC, and what it was asked for.
func ipmitool(t *testing.T) (path string, asked func() string) {
	t.Helper()
	dir := t.TempDir()
	path = filepath.Join(dir, "ipmitool")
	script, err := filepath.Abs("testdata/ipmitool.sh")
	if err == nil {
		err = os.Symlink(script, path)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path, func() string {
		b, err := os.ReadFile(filepath.Join(dir, "log"))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return string(b)
	}
}

const iso = "http://192.0.2.1/boot.iso"

// A Redfish service that answers is there, whatever it says: IPMI is not tried, and not what is
// remembered.
func TestAutoStaysWithRedfishThatAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		quirk      func(*redfishtest.Quirks)
		remembered bmc.Protocol
	}{
		"busy, of a new machine": {func(q *redfishtest.Quirks) { q.Busy = 1 }, ""},
		"busy, of a new leader":  {func(q *redfishtest.Quirks) { q.Busy = 1 }, bmc.Redfish},
		"with no session left":   {func(q *redfishtest.Quirks) { q.SessionLimit = 1 }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, key, asked := autoLab(t)
			l.s.OpenSession("somebody")
			l.s.Set(c.quirk)
			l.ok("remember", l.mem.Remember(l.ctx, key, bmc.Memo{Driver: c.remembered}))
			_, err := l.p.PowerState(l.ctx, l.m)
			l.class("read power", err, providers.Transient)
			if got := l.driverOf(key); got != c.remembered || asked() != "" {
				t.Errorf("driver %q is remembered, and IPMI was asked for %q; want %q and nothing", got, asked(), c.remembered)
			}
			l.s.Set(func(q *redfishtest.Quirks) { *q = redfishtest.Quirks{} })
			l.ok("insert", l.p.InsertMedia(l.ctx, op("media"), l.m, iso))
			if got := l.driverOf(key); got != bmc.Redfish {
				t.Errorf("driver %q is remembered, want redfish", got)
			}
		})
	}
}

// IPMI takes over where Redfish is silent, for now: what it cannot do may work later where Redfish
// was known, and in any case is looked now and then whether Redfish answers. Effects do not wait
// for that.
func TestIPMIInThePlaceOfRedfishIsForNow(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		remembered, want bmc.Protocol
		class            providers.Class // of what IPMI cannot do
	}{
		"Redfish was known":     {bmc.Redfish, bmc.Redfish, providers.Transient},
		"Redfish was not known": {"", bmc.IPMI, providers.Unsupported},
		"IPMI was known":        {bmc.IPMI, bmc.IPMI, providers.Unsupported},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, key, asked := autoLab(t)
			l.s.Set(func(q *redfishtest.Quirks) { q.Hang = true })
			l.ok("remember", l.mem.Remember(l.ctx, key, bmc.Memo{Driver: c.remembered}))
			l.power(providers.PowerOn)
			l.class("insert", l.p.InsertMedia(l.ctx, op("media"), l.m, iso), c.class)
			if got := l.driverOf(key); got != c.want || asked() == "" {
				t.Errorf("driver %q is remembered, want %q; IPMI was asked for %q", got, c.want, asked())
			}
			l.s.Set(func(q *redfishtest.Quirks) { q.Hang = false })
			served := l.s.Served()
			l.power(providers.PowerOn)
			l.p.LookDue()
			hurried := providers.WithNotAfter(l.ctx, time.Now().Add(time.Minute))
			l.ok("press", l.p.SetPower(hurried, op("power"), l.m, providers.ActionOn))
			if n := l.s.Served(); n != served {
				t.Errorf("%d requests over Redfish by a look that is not due and by an effect, want none", n-served)
			}
			l.power(providers.PowerOn)
			l.ok("insert", l.p.InsertMedia(l.ctx, op("media"), l.m, iso))
			if got := l.driverOf(key); got != bmc.Redfish {
				t.Errorf("driver %q is remembered, want redfish", got)
			}
		})
	}
}

// A look whether Redfish answers needs no more time than looks have whether a BMC can be reached,
// and where the web server hangs, IPMI has its part of that.
func TestALookInLittleTime(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		left  time.Duration
		hangs bool
		want  bmc.Protocol
	}{
		"Redfish answers":        {10 * time.Second, false, bmc.Redfish},
		"Redfish hangs":          {6 * time.Second, true, bmc.IPMI},
		"there is too little":    {4 * time.Second, false, bmc.IPMI},
		"as much as in a step":   {30 * time.Second, false, bmc.Redfish},
		"too little, and a hang": {4 * time.Second, true, bmc.IPMI},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, key, _ := autoLab(t)
			l.p = l.provider(func(cfg *bmc.Config) {
				cfg.TLS, cfg.Ipmitool, cfg.RequestTime, cfg.CommandTime = "insecure", ipmitoolOf(t), time.Minute, time.Minute
			})
			l.ok("remember", l.mem.Remember(l.ctx, key, bmc.Memo{Driver: bmc.IPMI}))
			l.power(providers.PowerOn)
			l.s.Set(func(q *redfishtest.Quirks) { q.Hang = c.hangs })
			l.p.LookDue()
			ctx, cancel := context.WithTimeout(l.ctx, c.left)
			defer cancel()
			_, err := l.p.PowerState(ctx, l.m)
			l.ok("read power", err)
			if got := l.driverOf(key); got != c.want {
				t.Errorf("driver %q is remembered, want %q", got, c.want)
			}
		})
	}
}

func ipmitoolOf(t *testing.T) string {
	t.Helper()
	path, _ := ipmitool(t)
	return path
}

// A new leader asks first the Redfish service that is known, and has time left for IPMI where its
// web server hangs.
func TestIPMIHasItsPartOfLittleTime(t *testing.T) {
	t.Parallel()
	l, key, _ := autoLab(t)
	l.s.Set(func(q *redfishtest.Quirks) { q.Hang = true })
	l.p = l.provider(func(c *bmc.Config) {
		c.TLS, c.Ipmitool, c.RequestTime, c.CommandTime = "insecure", ipmitoolOf(t), time.Minute, time.Minute
	})
	l.ok("remember", l.mem.Remember(l.ctx, key, bmc.Memo{Driver: bmc.Redfish}))
	ctx, cancel := context.WithTimeout(l.ctx, 5*time.Second)
	defer cancel()
	if got, err := l.p.PowerState(ctx, l.m); err != nil || got != providers.PowerOn {
		t.Errorf("power is %q (%v), want on", got, err)
	}
	if got := l.driverOf(key); got != bmc.Redfish {
		t.Errorf("driver %q is remembered, want redfish", got)
	}
}

// What IPMI lacks is worth a look before it is refused for good, but not a look each time.
func TestALookForWhatIPMILacks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ago   time.Duration
		class providers.Class // empty: it works
	}{
		"looked a moment ago":    {0, providers.Unsupported},
		"looked two minutes ago": {2 * time.Minute, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, key, _ := autoLab(t)
			l.ok("remember", l.mem.Remember(l.ctx, key, bmc.Memo{Driver: bmc.IPMI}))
			l.power(providers.PowerOn)
			l.p.LookedAt(time.Now().Add(-c.ago))
			served := l.s.Served()
			l.power(providers.PowerOn)
			if n := l.s.Served(); n != served {
				t.Errorf("%d requests over Redfish for what IPMI can do, want none", n-served)
			}
			_, err := l.p.Media(l.ctx, l.m)
			if c.class != "" {
				l.class("read media", err, c.class)
				return
			}
			l.ok("read media", err)
			if got := l.driverOf(key); got != bmc.Redfish {
				t.Errorf("driver %q is remembered, want redfish", got)
			}
		})
	}
}

// Whoever sets the protocol to IPMI has said that there is no Redfish to wait for.
func TestIPMIByLabelIsNotForNow(t *testing.T) {
	t.Parallel()
	l, key, _ := autoLab(t)
	l.ok("remember", l.mem.Remember(l.ctx, key, bmc.Memo{Driver: bmc.Redfish}))
	l.m.Labels = map[string]string{bmc.ProtocolLabel: string(bmc.IPMI)}
	l.class("insert", l.p.InsertMedia(l.ctx, op("media"), l.m, iso), providers.Unsupported)
	if n := l.s.Served(); n != 0 {
		t.Errorf("%d requests over Redfish, want none", n)
	}
}

// An account that IPMI takes and Redfish refuses is tried once, and IPMI stays.
func TestALookThatIsRefused(t *testing.T) {
	t.Parallel()
	l, key, _ := autoLab(t)
	l.ok("remember", l.mem.Remember(l.ctx, key, bmc.Memo{Driver: bmc.IPMI}))
	l.acct.set(bmc.Account{User: "admin", Password: "wrong"})
	for range 5 {
		if _, err := l.p.PowerState(l.ctx, l.m); err != nil {
			t.Fatal(err)
		}
	}
	if n := l.s.Logins(); n != 1 || l.driverOf(key) != bmc.IPMI {
		t.Errorf("%d logins, and %q is remembered; want one and ipmi", n, l.driverOf(key))
	}
}
