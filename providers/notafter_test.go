package providers_test

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
)

func TestInTime(t *testing.T) {
	now := time.Now()
	wall := func(d time.Duration) time.Time { return now.Round(0).Add(d) }
	for _, c := range []struct {
		name string
		t    time.Time
		want string // in the error; none if it is empty
	}{
		{"a minute left", now.Add(time.Minute), ""},
		{"a minute late", now.Add(-time.Minute), "not sent: it is 1m0"},
		{"right now", now, "not sent: it is "},
		{"a minute left by the wall clock alone", wall(time.Minute), ""},
		{"a minute late by the wall clock alone", wall(-time.Minute), "not sent: it is 1m0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := providers.WithNotAfter(t.Context(), c.t)
			if got, ok := providers.NotAfter(ctx); !ok || !got.Equal(c.t) {
				t.Errorf("got not after %v, %v, want %v", got, ok, c.t)
			}
			err := providers.InTime(ctx, "press")
			switch {
			case c.want == "" && err != nil:
				t.Errorf("got %v, want no error", err)
			case c.want != "" && (err == nil || providers.ClassOf(err) != providers.Late ||
				!strings.HasPrefix(err.Error(), "press: "+c.want)):
				t.Errorf("got %v (class %s), want class late and %q", err, providers.ClassOf(err), c.want)
			}
		})
	}
	if err := providers.InTime(t.Context(), "press"); err != nil {
		t.Errorf("without a not-after time: got %v", err)
	}
}

// Preparations of an effect have time, but the effect itself has no more than before.
func TestUnhurried(t *testing.T) {
	if _, ok := providers.NotAfter(providers.Unhurried(t.Context())); ok {
		t.Error("context without a not-after time: got one")
	}
	late := providers.WithNotAfter(t.Context(), time.Now().Add(-time.Minute))
	if err := providers.InTime(providers.Unhurried(late), "log in"); err != nil {
		t.Errorf("preparation: %v", err)
	}
	if err := providers.InTime(late, "press"); providers.ClassOf(err) != providers.Late {
		t.Errorf("effect: got %v, want class late", err)
	}
}
