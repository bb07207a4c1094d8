package poolreg

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

func marketplace() *Platform {
	return &Platform{
		Server: Server{URLs: []string{"https://market"}, Token: "t"}, ProviderID: "prov-1", AuthToken: "s3cret",
		Pricing: Pricing{PerToken: 0.00002, PerHour: 1.5, Currency: "EUR"},
		SLA:     SLA{UptimeGuarantee: 99.9, MaxLatencyMs: 250}, Geo: Geo{Country: "NL", Region: "EU"},
	}
}

// An orchestrator and a platform each get their data, independently of faults of the other.
func TestDualRegistration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, market := &orchestratord{interval: 10000}, &orchestratord{token: "t"}
		n := cluster(o)
		n.Serve("market", market.ServeHTTP)
		cfg := config(n)
		cfg.Platform = marketplace()
		reg := prometheus.NewPedanticRegistry()
		cfg.Registerer = reg
		c, stop := start(t, cfg, gpus())
		synctest.Wait()
		if !c.Orchestrator().Connected || !c.Platform().Connected {
			t.Errorf("got status %+v and %+v, want both connected", c.Orchestrator(), c.Platform())
		}
		if diff := cmp.Diff([]map[string]any{decode(`{"provider_id":"prov-1","endpoint":"http://192.168.1.100:9200","auth_token":"s3cret",
			"pricing":{"per_token":0.00002,"per_hour":1.5,"currency":"EUR"},"capacity":{"total_gpus":1,"total_vram_gb":24,"gpu_models":["RTX 4090"]},
			"sla":{"uptime_guarantee":99.9,"max_latency_ms":250},"geo":{"country":"NL","region":"EU"}}`)},
			market.providers); diff != "" {
			t.Errorf("provider (-want +got):\n%s", diff)
		}
		n.Serve("market", nil)
		sleep(time.Hour)
		if !c.Orchestrator().Connected || c.Platform().Connected || len(o.registers) != 1 {
			t.Errorf("got status %+v and %+v while the platform is down", c.Orchestrator(), c.Platform())
		}
		for _, want := range []string{"connection_status 1", "platform_connection_status 0"} {
			if got := scrape(t, reg); !slices.Contains(got, want) {
				t.Errorf("no %q in %q", want, got)
			}
		}
		n.Serve("market", market.ServeHTTP)
		sleep(time.Minute)
		if !c.Platform().Connected {
			t.Errorf("got status %+v, want connected again", c.Platform())
		}
		stop()
		if market.bad != nil || len(market.deregisters) != 0 || len(o.deregisters) != 1 {
			t.Errorf("platform: got deviations %q, %d deregistrations; orchestrator: %d", market.bad, len(market.deregisters),
				len(o.deregisters))
		}
	})
}

// A platform alone has no orchestrator, pool id or heartbeats. It gets the registration regularly.
func TestPlatformAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		market := &orchestratord{token: "t"}
		n := cluster(market)
		n.Serve("market", market.ServeHTTP)
		cfg := config(n)
		cfg.Orchestrator, cfg.Pool.ID, cfg.Platform = nil, "", marketplace()
		cfg.Platform.Capacity = &Capacity{TotalGPUs: 8, TotalVRAMGB: 640}
		c, stop := start(t, cfg, &source{err: errNoGPUs})
		sleep(59 * time.Minute)
		stop()
		if c.Orchestrator() != (Status{}) || n.Calls("a") != 0 {
			t.Errorf("got %d requests to an orchestrator, want 0", n.Calls("a"))
		}
		if got := len(market.providers); got < 12 || got > 14 {
			t.Errorf("got %d registrations in an hour, want about one per five minutes", got)
		}
		if diff := cmp.Diff(decode(`{"total_gpus":8,"total_vram_gb":640,"gpu_models":[]}`),
			market.providers[0]["capacity"]); diff != "" {
			t.Errorf("capacity (-want +got):\n%s", diff)
		}
	})
}
