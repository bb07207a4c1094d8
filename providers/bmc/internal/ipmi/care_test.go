package ipmi

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/providers"
)

func TestParseEvent(t *testing.T) {
	at := time.Date(2026, 11, 21, 16, 20, 5, 0, time.UTC)
	for _, c := range []struct {
		row  []string
		want providers.Event
	}{
		{[]string{"1f", "11/21/2026 16:20:05", "Power Supply PS2", "Failure detected : Asserted"},
			providers.Event{ID: "1f", At: at, Sensor: "Power Supply PS2", Message: "Failure detected : Asserted"}},
		{[]string{"2", "11/21/26 16:20:05 UTC", "Fan", "x"}, providers.Event{ID: "2", At: at, Sensor: "Fan", Message: "x"}},
		{[]string{"0", "Pre-Init 0000000000", "Temperature #0x30", "hot"},
			providers.Event{ID: "0", Sensor: "Temperature #0x30", Message: "hot"}},
		{nil, providers.Event{}},
	} {
		if diff := cmp.Diff(c.want, parseEvent(c.row)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", c.row, diff)
		}
	}
}

func TestParseLight(t *testing.T) {
	for out, want := range map[string]providers.LightState{
		" 01 00 40 00\n":                      providers.LightOff,
		"Running Get PICMG\n 21 10 50 70\n":   providers.LightOn,
		" 21 10 60 70\n":                      providers.LightOn, // without a time limit
		" 21 10 00 70\n":                      providers.LightUnknown,
		"":                                    providers.LightUnknown,
		"Unable to send RAW command (rsp=0x)": providers.LightUnknown,
	} {
		if got := parseLight(out); got != want {
			t.Errorf("light of %q: got %q, want %q", out, got, want)
		}
	}
}
