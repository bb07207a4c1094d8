package bmc_test

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc"
	"github.com/holdfast-metal/holdfast/providers/bmc/redfishtest"
	"github.com/holdfast-metal/holdfast/providers/providertest"
)

// silent returns the address of a server that accepts connections and does not answer.
func silent(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

// withoutConsole is a provider for machines that have Redfish only.
type withoutConsole struct {
	providers.Provider
	providers.Inspector
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

func TestConformanceOverRedfish(t *testing.T) {
	t.Parallel()
	for name, quirks := range map[string]func(*redfishtest.Quirks){
		"AsSpecified":  func(*redfishtest.Quirks) {},
		"OffIsAnError": func(q *redfishtest.Quirks) { q.OffIsAnError = true },
		"ActionInfo":   func(q *redfishtest.Quirks) { q.ActionInfo = true },
		"TypesByState": func(q *redfishtest.Quirks) { q.TypesByState, q.OffIsAnError = true, true },
		"OwnETag":      func(q *redfishtest.Quirks) { q.OwnETag = true },
		"NoSessions":   func(q *redfishtest.Quirks) { q.NoSessions = true },
		"Expiring":     func(q *redfishtest.Quirks) { q.ExpireSession = true },
		"ManagerLog":   func(q *redfishtest.Quirks) { q.ManagerLog = true },
	} {
		t.Run(name, func(t *testing.T) {
			providertest.Run(t, func(t *testing.T) providertest.Setup {
				l := newLab(t, redfishtest.Config{PowerTime: 20 * time.Millisecond, PostTime: 20 * time.Millisecond,
					BootTime: 20 * time.Millisecond}, func(c *bmc.Config) { c.Protocol = bmc.Redfish })
				l.s.Set(quirks)
				return providertest.Setup{
					Provider: withoutConsole{l.p, l.p, l.p, l.p, l.p, l.p, l.p, l.p, l.p, l.p,
						l.p}, Machine: l.m, Silent: machine("silent", "http://"+silent(t)), Missing: machine("missing",
						"http://127.0.0.1:1"),
					Wait: 20 * time.Second, Poll: 5 * time.Millisecond, MediaURL: "http://192.0.2.1/boot.iso", ClearLog: true,
					ResetBMC: true,
					Broken: func(context.Context) providers.Problem {
						l.s.Break(redfishtest.Disk1)
						return providers.Problem{Kind: providers.DiskFailed, Text: "disk 1 failed"}
					},
				}
			})
		})
	}
}

// TestConformanceOfProfiles runs the conformance suite against BMCs as described by their makers.
func TestConformanceOfProfiles(t *testing.T) {
	t.Parallel()
	for _, p := range redfishtest.Profiles() {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			providertest.Run(t, func(t *testing.T) providertest.Setup {
				l := profiled(t, p)
				return providertest.Setup{
					Provider: withoutConsole{l.p, l.p, l.p, l.p, l.p, l.p, l.p, l.p, l.p, l.p,
						l.p}, Machine: l.m, Silent: machine("silent", "http://"+silent(t)), Missing: machine("missing",
						"http://127.0.0.1:1"),
					Wait: 20 * time.Second, Poll: 5 * time.Millisecond, MediaURL: p.Media, ClearLog: true, ResetBMC: true,
					Broken: func(context.Context) providers.Problem {
						l.s.Break(redfishtest.Disk1)
						return providers.Problem{Kind: providers.DiskFailed, Text: "disk 1 failed"}
					},
				}
			})
		})
	}
}

// profiled is a lab with the BMC of a maker.
func profiled(t *testing.T, p redfishtest.Profile) *lab {
	t.Helper()
	c := p.Config
	c.PowerTime, c.PostTime, c.BootTime = 20*time.Millisecond, 20*time.Millisecond, 20*time.Millisecond
	l := newLab(t, c, func(c *bmc.Config) { c.Protocol = bmc.Redfish })
	l.s.Set(func(q *redfishtest.Quirks) { *q = p.Quirks })
	l.m = machine("m-1", l.url+p.Endpoint)
	return l
}

// TestProfilesBoot checks that the boot override is set where the BMC accepts it, with a name that
// boots virtual media, and that a new leader reads it back.
func TestProfilesBoot(t *testing.T) {
	t.Parallel()
	want := map[string]string{"X12": "UsbCd Once UEFI", "X13": "UsbCd Once UEFI"}
	for _, p := range redfishtest.Profiles() {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			l := profiled(t, p)
			d := providers.BootDevice{Mode: "VIRTUAL_MEDIA", UEFI: true}
			l.ok("set boot device", l.p.SetBootDevice(l.ctx, op("boot"), l.m, d))
			if got := l.effects("boot"); len(got) != 1 || got[0] != "boot "+cmp.Or(want[p.Name], "Cd Once UEFI") {
				t.Errorf("got accepted changes %q, want one change to %q", got, "boot "+cmp.Or(want[p.Name], "Cd Once UEFI"))
			}
			got, err := l.provider(redfishOnly).BootDevice(l.ctx, l.m)
			if l.ok("read boot device", err); got != d {
				t.Errorf("another leader: got %+v, want %+v", got, d)
			}
			l.ok("power off", l.p.SetPower(l.ctx, op("off"), l.m, providers.ActionHardOff))
			l.power(providers.PowerOff)
			l.ok("power on", l.p.SetPower(l.ctx, op("on"), l.m, providers.ActionOn))
			l.eventually("boot from virtual media", func() bool { return l.s.Booted(p.Config.Systems[0]) != "" })
		})
	}
}

// TestFailedTask checks that the error of a task is returned at once as that of the change.
func TestFailedTask(t *testing.T) {
	t.Parallel()
	for _, p := range redfishtest.Profiles() {
		if p.Config.Style.Changed != http.StatusAccepted {
			continue
		}
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			l := profiled(t, p)
			l.s.FailTasks("the image cannot be read: connection refused")
			began := time.Now()
			err := l.p.InsertMedia(l.ctx, op("media"), l.m, p.Media)
			l.class("insert media", err, providers.Transient)
			if took := time.Since(began); !strings.Contains(err.Error(), "connection refused") || took > 5*time.Second {
				t.Errorf("after %s: got %v, want the error of the task", took, err)
			}
			l.s.FailTasks("")
			l.ok("insert media", l.p.InsertMedia(l.ctx, op("media"), l.m, p.Media))
		})
	}
}
