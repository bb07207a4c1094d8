package bmc_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc"
	"github.com/holdfast-metal/holdfast/providers/bmc/redfishtest"
)

func TestHealthOverRedfish(t *testing.T) {
	for name, tt := range map[string]struct {
		maker  string
		broken []redfishtest.Part
		log    []string // severity, message
		want   []providers.Problem
	}{
		"healthy": {},
		"a disk": {broken: []redfishtest.Part{redfishtest.Disk1},
			want: []providers.Problem{{Kind: providers.DiskFailed, Text: "disk 1 failed"}}},
		"a power supply": {broken: []redfishtest.Part{redfishtest.PSU1},
			want: []providers.Problem{{Kind: providers.PowerSupply, Text: "PSU 1 lost input"}}},
		"too hot": {broken: []redfishtest.Part{redfishtest.CPU1Temp},
			want: []providers.Problem{{Kind: providers.Thermal, Text: "CPU1 94 C over 90 C"}}},
		"several, in order": {broken: []redfishtest.Part{redfishtest.Fan1, redfishtest.PSU1,
			redfishtest.Disk1}, want: []providers.Problem{{Kind: providers.DiskFailed, Text: "disk 1 failed"},
			{Kind: providers.PowerSupply, Text: "PSU 1 lost input"}, {Kind: providers.Thermal, Text: "Fan 1 failed"}}},
		"unknown problem": {broken: []redfishtest.Part{redfishtest.Rollup},
			want: []providers.Problem{{Kind: providers.HealthUnnamed,
				Text: "the BMC reports Critical for the system, without naming a part"}}},
		"a roll-up that follows the log": {maker: "Dell Inc.", broken: []redfishtest.Part{redfishtest.Rollup}},
		"State and Health mixed up":      {broken: []redfishtest.Part{redfishtest.Mixed}},
		"the event log": {log: []string{"Critical", "Memory: uncorrectable error in DIMM A1"},
			want: []providers.Problem{{Kind: providers.EventLogged,
				Text: "the event log says: Memory: uncorrectable error in DIMM A1"}}},
		"a warning in the log": {log: []string{"Warning", "The door is open"}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, redfishtest.Config{Manufacturer: tt.maker}, func(c *bmc.Config) { c.Protocol = bmc.Redfish })
			l.s.Set(func(q *redfishtest.Quirks) { q.Latency = time.Millisecond }) // so that any two overlap
			l.s.Healthy()
			for _, p := range tt.broken {
				l.s.Break(p)
			}
			if tt.log != nil {
				l.s.Log("1", tt.log[0], tt.log[1])
			}
			got, err := l.p.Health(l.ctx, l.m)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got.Problems); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			if len(got.Unread) > 0 {
				t.Errorf("got unread parts %q", got.Unread)
			}
			if reads, writes := l.s.Most(); reads > 1 || writes > 1 {
				t.Errorf("got %d reads and %d writes at once, want one request at a time", reads, writes)
			}
		})
	}
}

// A drive that is about to fail, and a DIMM with a warning, are in no roll-up.
func TestPredictedFailuresAreProblems(t *testing.T) {
	l := newLab(t, redfishtest.Config{}, func(c *bmc.Config) { c.Protocol = bmc.Redfish })
	got, err := l.p.Health(l.ctx, l.m)
	if err != nil {
		t.Fatal(err)
	}
	want := []providers.Problem{{Kind: providers.DiskFailed, Text: "disk 2 is predicted to fail"},
		{Kind: providers.MemoryFailed, Text: "DIMM A3 is degraded"}}
	if diff := cmp.Diff(want, got.Problems); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}
