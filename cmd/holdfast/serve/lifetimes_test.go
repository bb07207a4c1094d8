package serve

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/client/discovery"
	"github.com/holdfast-metal/holdfast/client/machine"
	"github.com/holdfast-metal/holdfast/client/poolreg"
	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// TestAPIAnswersTheLease checks that all APIs answer the TTL of the recorded lease. The leases have
// other TTLs than new ones would have.
func TestAPIAnswersTheLease(t *testing.T) {
	const pending, register = "2222bbbb", "/api/v1/machine/register"
	l, _ := equipped(t)
	l.Do(&internalv1.RegisterAgent{TtlMs: 7000,
		Agent: &holdfastv1.RegisterAgentRequest{MachineId: theMachine, PoolName: "gpu"}})
	l.Do(&internalv1.RegisterPool{Pool: &holdfastv1.Pool{PoolId: "gpu"}, TtlMs: 11_000})
	l.Do(&internalv1.CreateAgentMachine{MachineId: pending, Pool: "pool-1", PendingTtlMs: 13_000})
	keepalive := `{"machine_id":"` + theMachine + `","pool_name":"gpu"}`
	for _, c := range []struct {
		name, token, pattern, path, body string
		member                           string // of the answer, with dots
		want                             any
	}{
		{"a machine's keepalive", "agent", "POST", "/api/v1/machine/keepalive", keepalive, "machine_state.ttl_seconds", 7.0},
		{"a machine's heartbeat", "agent", "POST", "/v1/agents/" + theMachine + "/heartbeat", keepalive, "ttl_seconds", "7"},
		{"a machine", "admin", "GET", "/v1/machines/" + theMachine, "", "agent.ttl_seconds", "7"},
		{"a pending machine", "admin", "GET", "/v1/machines/" + pending, "", "agent.ttl_seconds", "13"},
		{"a pool's heartbeat", "gpu", "POST", "/v1/pools/gpu/heartbeat", "{}", "ttl_seconds", "11"},
		{"a service's ping", "service", "POST", "/v1/services/" + theService + "/heartbeat", "{}", "ttl_seconds", "60"},
		{"a machine's registration", "agent", "POST", register, ways()["POST "+register].body, "machine_state.ttl_seconds",
			fsm.LifetimeOf(internalv1.LeaseRef_MACHINE).TTL.Seconds()},
	} {
		w := send(t, l, c.pattern+" "+c.path, c.path, c.body, c.token)
		var got any
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != 200 {
			t.Errorf("%s: got status %d and %s", c.name, w.Code, w.Body)
			continue
		}
		for name := range strings.SplitSeq(c.member, ".") {
			in, _ := got.(map[string]any)
			got = in[name]
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: TTL in the answer (-want +got):\n%s%s", c.name, diff, w.Body)
		}
	}
}

// TestLifetimes compares the table with its users that cannot read it: the clients, which other
// programs link, and the documents.
func TestLifetimes(t *testing.T) {
	for _, c := range []struct {
		name     string
		kind     internalv1.LeaseRef_Kind
		interval time.Duration
	}{
		{"client/machine", internalv1.LeaseRef_MACHINE, machine.DefaultInterval},
		{"client/poolreg", internalv1.LeaseRef_POOL, poolreg.DefaultHeartbeatInterval},
		{"client/discovery", internalv1.LeaseRef_SERVICE, discovery.DefaultPeriod},
	} {
		l := fsm.LifetimeOf(c.kind)
		for _, interval := range []time.Duration{c.interval, l.Interval, l.HighLoad, l.LowLoad} {
			if lasts := l.Last(l.TTL, interval); 3*interval > lasts {
				t.Errorf("%s: an interval of %s allows no two lost heartbeats within %s", c.name, interval, lasts)
			}
		}
		if c.interval > l.Interval {
			t.Errorf("%s: the default interval is %s, want at most %s", c.name, c.interval, l.Interval)
		}
	}
	api, err := os.ReadFile("../../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	m, pool := fsm.LifetimeOf(internalv1.LeaseRef_MACHINE), fsm.LifetimeOf(internalv1.LeaseRef_POOL)
	for _, row := range []string{
		fmt.Sprintf("| machine | a minute; %.0f s from 5,000 a second on | %.0f s: expired |",
			m.HighLoad.Seconds(), m.TTL.Seconds()),
		fmt.Sprintf("| pool | %.0f s; %.0f s from 500 a second on; %.0f s after",
			pool.Interval.Seconds(), pool.HighLoad.Seconds(), pool.LowLoad.Seconds()),
		fmt.Sprintf("| %.0f s: missing in action |", fsm.LifetimeOf(internalv1.LeaseRef_SERVICE).TTL.Seconds()),
	} {
		if !strings.Contains(string(api), row) {
			t.Errorf("docs/api.md has no row %q", row)
		}
	}
}
