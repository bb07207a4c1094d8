package bmc_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc"
	"github.com/holdfast-metal/holdfast/providers/bmc/redfishtest"
	"github.com/holdfast-metal/holdfast/providers/providertest"
)

// silent takes connections and says nothing.
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
				l := newLab(t, redfishtest.Config{PowerTime: 20 * time.Millisecond, PostTime: 20 * time.Millisecond, BootTime: 20 * time.Millisecond}, func(c *bmc.Config) { c.Protocol = bmc.Redfish })
				l.s.Set(quirks)
				return providertest.Setup{
					Provider: withoutConsole{l.p, l.p, l.p, l.p, l.p, l.p, l.p, l.p, l.p, l.p, l.p}, Machine: l.m, Silent: machine("silent", "http://"+silent(t)), Missing: machine("missing", "http://127.0.0.1:1"),
					Wait: 20 * time.Second, Poll: 5 * time.Millisecond, MediaURL: "http://192.0.2.1/boot.iso", ClearLog: true, ResetBMC: true,
					Broken: func(context.Context) providers.Problem {
						l.s.Break(redfishtest.Disk1)
						return providers.Problem{Kind: providers.DiskFailed, Text: "disk 1 failed"}
					},
				}
			})
		})
	}
}
