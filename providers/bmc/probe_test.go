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

// autoLab is a BMC with both protocols, and an endpoint without a protocol. asked returns the
// requests to IPMI.
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

// ipmitool returns the path of a fake ipmitool, and a function that returns its requests.
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

// A Redfish service that answers is used, even if it answers with an error. Neither IPMI nor the
// remembered driver is tried.
func TestAutoUsesRedfishThatAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		quirk      func(*redfishtest.Quirks)
		remembered bmc.Protocol
	}{
		"busy, of a new machine": {func(q *redfishtest.Quirks) { q.Busy = 1 }, ""},
		"busy, of a new leader":  {func(q *redfishtest.Quirks) { q.Busy = 1 }, bmc.Redfish},
		"without a free session": {func(q *redfishtest.Quirks) { q.SessionLimit = 1 }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, key, asked := autoLab(t)
			l.s.OpenSession("other")
			l.s.Set(c.quirk)
			l.ok("remember", l.mem.Remember(l.ctx, key, bmc.Memo{Driver: c.remembered}))
			_, err := l.p.PowerState(l.ctx, l.m)
			l.class("read power", err, providers.Transient)
			if got := l.driverOf(key); got != c.remembered || asked() != "" {
				t.Errorf("got driver %q and IPMI requests %q, want %q and none", got, asked(), c.remembered)
			}
			l.s.Set(func(q *redfishtest.Quirks) { *q = redfishtest.Quirks{} })
			l.ok("insert", l.p.InsertMedia(l.ctx, op("media"), l.m, iso))
			if got := l.driverOf(key); got != bmc.Redfish {
				t.Errorf("remembered driver: got %q, want redfish", got)
			}
		})
	}
}

// IPMI replaces a silent Redfish service only temporarily. If Redfish was known, operations that
// IPMI lacks may work later. In any case, Redfish is checked occasionally, which effects do not
// wait for.
func TestIPMIReplacesSilentRedfishTemporarily(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		remembered, want bmc.Protocol
		class            providers.Class // of operations that IPMI lacks
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
				t.Errorf("remembered driver: got %q, want %q; IPMI requests %q", got, c.want, asked())
			}
			l.s.Set(func(q *redfishtest.Quirks) { q.Hang = false })
			served := l.s.Served()
			l.power(providers.PowerOn)
			l.p.ProbeDue()
			hurried := providers.WithNotAfter(l.ctx, time.Now().Add(time.Minute))
			l.ok("press", l.p.SetPower(hurried, op("power"), l.m, providers.ActionOn))
			if n := l.s.Served(); n != served {
				t.Errorf("got %d Redfish requests of a poll without a due check and of an effect, want 0", n-served)
			}
			l.power(providers.PowerOn)
			l.ok("insert", l.p.InsertMedia(l.ctx, op("media"), l.m, iso))
			if got := l.driverOf(key); got != bmc.Redfish {
				t.Errorf("remembered driver: got %q, want redfish", got)
			}
		})
	}
}

// The check of Redfish fits into the time of a poll, and leaves time for IPMI if the web server
// hangs.
func TestCheckInLittleTime(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		left  time.Duration
		hangs bool
		want  bmc.Protocol
	}{
		"Redfish answers":        {10 * time.Second, false, bmc.Redfish},
		"Redfish hangs":          {6 * time.Second, true, bmc.IPMI},
		"too little time":        {4 * time.Second, false, bmc.IPMI},
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
			l.p.ProbeDue()
			ctx, cancel := context.WithTimeout(l.ctx, c.left)
			defer cancel()
			_, err := l.p.PowerState(ctx, l.m)
			l.ok("read power", err)
			if got := l.driverOf(key); got != c.want {
				t.Errorf("remembered driver: got %q, want %q", got, c.want)
			}
		})
	}
}

func ipmitoolOf(t *testing.T) string {
	t.Helper()
	path, _ := ipmitool(t)
	return path
}

// A new leader first tries the known Redfish service, and leaves time for IPMI if its web server
// hangs.
func TestIPMIGetsPartOfLittleTime(t *testing.T) {
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
		t.Errorf("got power %q (%v), want on", got, err)
	}
	if got := l.driverOf(key); got != bmc.Redfish {
		t.Errorf("remembered driver: got %q, want redfish", got)
	}
}

// Before an operation that IPMI lacks is refused, Redfish is checked, but not each time.
func TestCheckForMissingOperation(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ago   time.Duration
		class providers.Class // empty: success
	}{
		"checked a moment ago":    {0, providers.Unsupported},
		"checked two minutes ago": {2 * time.Minute, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, key, _ := autoLab(t)
			l.ok("remember", l.mem.Remember(l.ctx, key, bmc.Memo{Driver: bmc.IPMI}))
			l.power(providers.PowerOn)
			l.p.ProbedAt(time.Now().Add(-c.ago))
			served := l.s.Served()
			l.power(providers.PowerOn)
			if n := l.s.Served(); n != served {
				t.Errorf("got %d Redfish requests for an operation that IPMI has, want 0", n-served)
			}
			_, err := l.p.Media(l.ctx, l.m)
			if c.class != "" {
				l.class("read media", err, c.class)
				return
			}
			l.ok("read media", err)
			if got := l.driverOf(key); got != bmc.Redfish {
				t.Errorf("remembered driver: got %q, want redfish", got)
			}
		})
	}
}

// With the protocol set to IPMI, Redfish is never checked.
func TestIPMIByLabelIsPermanent(t *testing.T) {
	t.Parallel()
	l, key, _ := autoLab(t)
	l.ok("remember", l.mem.Remember(l.ctx, key, bmc.Memo{Driver: bmc.Redfish}))
	l.m.Labels = map[string]string{bmc.ProtocolLabel: string(bmc.IPMI)}
	l.class("insert", l.p.InsertMedia(l.ctx, op("media"), l.m, iso), providers.Unsupported)
	if n := l.s.Served(); n != 0 {
		t.Errorf("got %d Redfish requests, want 0", n)
	}
}

// An account that IPMI accepts and Redfish refuses is tried once, and IPMI stays.
func TestRefusedCheck(t *testing.T) {
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
		t.Errorf("got %d logins and driver %q, want 1 and ipmi", n, l.driverOf(key))
	}
}
