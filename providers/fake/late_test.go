package fake_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

// The hardware itself refuses late requests, even if the sender expects them to be in time.
func TestHardwareRefusesLateEffects(t *testing.T) {
	now := time.Now()
	clock := func() time.Time { return now }
	for _, c := range []struct {
		name, op, notAfter string
		status             int
		want               string
	}{
		{"in time", "power_off", now.Add(time.Second).Format(time.RFC3339Nano), 200, "null"},
		{"no time", "power_off", "", 200, "null"},
		{"late", "power_off", now.Add(-time.Second).Format(time.RFC3339Nano), 412, `"class":"late","error":"power_off of m-1: refused: it came 1s too late, from the leader of epoch 7"`},
		{"at the very moment", "power_off", now.Format(time.RFC3339Nano), 412, "too late"},
		{"not a time", "power_off", "soon", 400, `Holdfast-Not-After is \"soon\"`},
		{"reading is never late", "power_state", now.Add(-time.Second).Format(time.RFC3339Nano), 200, `"on"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := fake.NewFleet(fake.Config{Now: clock})
			w := httptest.NewRecorder()
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/ops/"+c.op,
				strings.NewReader(`{"machine_id": "m-1", "epoch": 7, "args": {"Action": "hard-off"}}`))
			if c.notAfter != "" {
				r.Header.Set("Holdfast-Not-After", c.notAfter)
			}
			f.Handler().ServeHTTP(w, r)
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
				t.Errorf("got %d %s, want %d with %s", w.Code, w.Body, c.status, c.want)
			}
			late, effects := 0, 0
			if c.status == http.StatusPreconditionFailed {
				late = 1
			} else if c.status == http.StatusOK && c.op == "power_off" {
				effects = 1
			}
			if s, _ := f.State("m-1"); s.Late != late || len(f.Effects("", "", 0)) != effects || s.Overlaps != 0 {
				t.Errorf("got %d late, effects %v, %d overlaps, want %d late, %d effects, no overlap", s.Late, f.Effects("", "", 0),
					s.Overlaps, late, effects)
			}
		})
	}
}

// The time that the hardware needs to act does not count: a timely request takes effect.
func TestSlowHardwareIsNotLate(t *testing.T) {
	inLab(t, fake.Faults{Latency: fake.Duration(time.Minute)}, func(l *lab) {
		ctx := providers.WithNotAfter(l.ctx, time.Now().Add(time.Second))
		l.ok(l.p.SetPower(ctx, op("reboot"), l.m, providers.ActionHardOff))
		if diff := cmp.Diff([]string{"power_off"}, l.effects()); diff != "" {
			l.Error(diff)
		}
		l.fails(l.p.SetPower(ctx, op("reboot"), l.m, providers.ActionOn), providers.Late)
	})
}
