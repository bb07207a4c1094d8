package rest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestCeiling(t *testing.T) {
	// POOLREG-18011: 1 s, 2 s, 4 s, 8 s, at most 30 s.
	b := Backoff{Base: time.Second, Max: 30 * time.Second}
	var got []time.Duration
	for n := range 8 {
		got = append(got, b.Ceiling(n+1)/time.Second)
	}
	if diff := cmp.Diff([]time.Duration{1, 2, 4, 8, 16, 30, 30, 30}, got); diff != "" {
		t.Errorf("seconds (-want +got):\n%s", diff)
	}
}

func TestDelayIsAtLeastHalfTheCeiling(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := Backoff{
			Base: time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "base")),
			Max:  time.Duration(rapid.Int64Range(1, int64(24*time.Hour)).Draw(t, "max")),
		}
		n := rapid.IntRange(1, 1000).Draw(t, "failures")
		ceiling, next := b.Ceiling(n), b.Ceiling(n+1)
		if ceiling <= 0 || ceiling > b.Max || next < ceiling || next > 2*ceiling && next != b.Max {
			t.Fatalf("got ceiling %v, then %v, with %+v", ceiling, next, b)
		}
		if d := b.Delay(n); d < ceiling/2 || d > ceiling {
			t.Fatalf("got delay %v, want it within [%v, %v]", d, ceiling/2, ceiling)
		}
	})
}

func TestEarlyNeverLengthens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "interval"))
		if got := Early(d); got > d || got < d-d/10 {
			t.Fatalf("Early(%v): got %v", d, got)
		}
	})
}

// Clients that fail at the same time do not retry at the same time.
func TestDelaysSpread(t *testing.T) {
	b := Backoff{Base: time.Second, Max: 30 * time.Second}
	perTenth := make(map[time.Duration]int)
	for range 10_000 {
		perTenth[b.Delay(1)/(100*time.Millisecond)]++
	}
	for tenth, n := range perTenth {
		if n > 3000 {
			t.Errorf("got %d of 10000 clients within the 100 ms after %v", n, tenth*100*time.Millisecond)
		}
	}
}

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		if err := Sleep(t.Context(), time.Minute); err != nil || time.Since(start) != time.Minute {
			t.Errorf("Sleep: got %v after %v, want nil after a minute", err, time.Since(start))
		}
		why := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(why) })
		start = time.Now()
		if err := Sleep(ctx, time.Minute); !errors.Is(err, why) || time.Since(start) != time.Second {
			t.Errorf("Sleep: got %v after %v, want %v after a second", err, time.Since(start), why)
		}
	})
}
