package machine

import (
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/client/internal/rest"
)

func TestReadTiming(t *testing.T) {
	for body, want := range map[string]timing{
		`{"config":null,"machine_state":{"machine_id":"1165a9b6","status":"registered","pool_name":"gpu","ttl_seconds":300}}`: {ttl: 5 * time.Minute},
		`{"machine_state":{"ttl_seconds":"300"}}`: {ttl: 5 * time.Minute},
		`{"machine_state":{"ttl_seconds":300,"next_keepalive_ms":1500}}`: {ttl: 5 * time.Minute,
			next: 1500 * time.Millisecond},
		`{"next_keepalive_ms":1500,"machine_state":[]}`:                             {next: 1500 * time.Millisecond},
		`{"next_keepalive_ms":"soon","machine_state":{"ttl_seconds":null}}`:         {},
		`{"machine_state":{"ttl_seconds":-300}}`:                                    {},
		`{"machine_state":{"ttl_seconds":1e300}}`:                                   {ttl: 24 * time.Hour},
		`{"machine_state":{"ttl_seconds":{"deep":[1]},"next_keepalive_ms":2000.5}}`: {next: 2000500 * time.Microsecond},
		`[]`: {}, `null`: {}, ``: {}, `<html>`: {},
	} {
		if got := readTiming([]byte(body)); got != want {
			t.Errorf("readTiming(%s): got %+v, want %+v", body, got, want)
		}
	}
}

func TestForgotten(t *testing.T) {
	const code = `{"message":"m","error_code":"machine_not_found","suggestion":"s"}`
	for _, tt := range []struct {
		status int
		body   string
		want   bool
	}{
		{500, code, true}, {404, code, true}, {200, code, false},
		{500, `{"message":"machine_not_found"}`, false}, {500, ``, false}, {403, `{"error_code":"invalid_token"}`, false},
	} {
		if got := forgotten(&rest.Answer{Status: tt.status, Body: []byte(tt.body)}); got != tt.want {
			t.Errorf("forgotten(%d %s): got %v, want %v", tt.status, tt.body, got, tt.want)
		}
	}
}

func FuzzReadTiming(f *testing.F) {
	f.Add([]byte(`{"machine_state":{"ttl_seconds":300,"next_keepalive_ms":"1"},"next_keepalive_ms":20000}`))
	f.Add([]byte(`{"machine_state":{"ttl_seconds":1e-300,"next_keepalive_ms":1e400}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		got := readTiming(body)
		for _, configured := range []time.Duration{0, time.Millisecond, 30 * time.Second, 1000 * time.Hour} {
			d := got.interval(configured)
			if d < minInterval || got.ttl > 3*minInterval && d > got.ttl/3 {
				t.Errorf("got interval %v with %+v, configured %v", d, got, configured)
			}
		}
	})
}
