package fake_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/holdfast-metal/holdfast/providers/fake"
)

func TestParseConfig(t *testing.T) {
	ms := func(n int) fake.Duration { return fake.Duration(time.Duration(n) * time.Millisecond) }
	for _, c := range []struct {
		name, in string
		want     fake.Config
	}{
		{"empty", "", fake.Config{}},
		{"json", `{"seed": 3, "fail": 0.5}`, fake.Config{Seed: 3, Faults: fake.Faults{Fail: 0.5}}},
		{"times", "power_time: 1s\nboot_time: 20ms\ninstall_time: 1m\ncommand_time: 1ms\njoin_time: 2ms\n", fake.Config{
			PowerTime: ms(1000), BootTime: ms(20), InstallTime: ms(60_000), CommandTime: ms(1), JoinTime: ms(2)}},
		{"faults", "latency: 200ms\nfail: 0.01\nfail_after: 1\nhang: ['*']\nlie: [power_off, install]\nflap: 2s\nauth: " +
			"true\ngone: true\nonly_first: 3\n",
			fake.Config{Faults: fake.Faults{Latency: ms(200), Fail: 0.01, FailAfter: 1, Hang: []string{"*"},
				Lie: []string{"power_off", "install"}, Flap: ms(2000), Auth: true, Gone: true, OnlyFirst: 3}}},
		{"a machine starts from the faults of all",
			"latency: 200ms\nhang: [inspect, power_state]\nmachines:\n  m-1: {hang: [power_off], auth: true}\n  m-2: " +
				"{latency: 0s, hang: []}\n",
			fake.Config{Faults: fake.Faults{Latency: ms(200), Hang: []string{"inspect", "power_state"}},
				Machines: map[string]fake.Faults{
					"m-1": {Latency: ms(200), Hang: []string{"power_off"}, Auth: true}, "m-2": {}}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := fake.ParseConfig([]byte(c.in))
			if err != nil {
				t.Fatal(err)
			}
			opts := cmp.Options{cmpopts.IgnoreFields(fake.Config{}, "Now"), cmpopts.EquateEmpty()}
			if diff := cmp.Diff(c.want, got, opts); diff != "" {
				t.Fatal(diff)
			}
		})
	}
}

func TestParseConfigRefuses(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"unknown key", "latencyy: 1s", `unknown key "latencyy"`},
		{"unknown key of a machine", "machines: {m-1: {hangs: ['*']}}", `machine "m-1": unknown key "hangs"`},
		{"key twice", "seed: 1\nseed: 2", `key "seed" already set`},
		{"not YAML", "{", "yaml"},
		{"a list", "[1]", "a list"},
		{"number as duration", "latency: 5", `read duration 5: write it as text with a unit, e.g. "15s"`},
		{"duration without unit", "boot_time: '5'", `read duration "5"`},
		{"negative duration", "boot_time: -1s", `read duration "-1s": it must not be negative`},
		{"no probability", "fail: 1.5", "fail is 1.5"},
		{"negative probability", "fail_after: -1", "fail_after -1"},
		{"negative count", "only_first: -1", "only_first -1"},
		{"unknown operation", "hang: [power_of]", `hang has "power_of": it allows "*" and inspect, health, power_state`},
		{"lie about reading", "lie: [power_state]", `lie has "power_state": it allows "*" and power_on`},
		{"machine's faults", "machines: {m-1: {fail: 2}}", `machine "m-1": fail is 2`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := fake.ParseConfig([]byte(c.in))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want %q in it", err, c.want)
			}
		})
	}
}

func TestValidate(t *testing.T) {
	for _, c := range []fake.Config{
		{BootTime: -1}, {Faults: fake.Faults{Latency: -1}}, {Faults: fake.Faults{Lie: []string{"inspect"}}},
		{Machines: map[string]fake.Faults{"m-1": {OnlyFirst: -1}}},
	} {
		if err := c.Validate(); err == nil {
			t.Errorf("Validate(%+v): got no error", c)
		}
	}
	if err := (fake.Config{}).Validate(); err != nil {
		t.Error(err)
	}
}

// FuzzParseConfig checks that an accepted configuration is valid, and unchanged when it is written
// and read again.
func FuzzParseConfig(f *testing.F) {
	for _, s := range []string{
		"", "null", "{}", "seed: 1", "latency: 200ms\nfail: 0.01\n", `{"machines":{"m-1":{"hang":["*"]},"m-2":null}}`,
		"lie: [install]\nmachines:\n  a: {lie: []}\n  b: {only_first: 2, flap: 1h}\n", "fail: .nan", "a: &a [*a]",
		"fail: 1e999",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		c, err := fake.ParseConfig(in)
		if err != nil {
			return
		}
		if err := c.Validate(); err != nil {
			t.Fatalf("validate an accepted configuration: %v", err)
		}
		out, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		again, err := fake.ParseConfig(out)
		if err != nil {
			t.Fatalf("parse the written configuration %s: %v", out, err)
		}
		opts := cmp.Options{cmpopts.IgnoreFields(fake.Config{}, "Now"), cmpopts.EquateEmpty()}
		if diff := cmp.Diff(c, again, opts); diff != "" {
			t.Fatalf("configuration %s, written and read again (-want +got):\n%s", out, diff)
		}
	})
}
