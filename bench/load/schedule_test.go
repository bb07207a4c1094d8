package load

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestSchedule checks that each member is called when it is due, however long others take, and
// never twice at once.
func TestSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		got := map[int][]time.Duration{}
		began := time.Now()
		s := &Schedule{
			Members: 3, AtOnce: 3,
			First: func(i int) time.Duration { return time.Duration(i) * time.Second },
			Call: func(_ context.Context, i int, due time.Time) time.Duration {
				mu.Lock()
				got[i] = append(got[i], time.Since(began))
				n := len(got[i])
				mu.Unlock()
				if want := began.Add(time.Duration(i)*time.Second + time.Duration(n-1)*10*time.Second); i != 2 && !due.Equal(want) {
					t.Errorf("member %d: due at %s, want %s", i, due.Sub(began), want.Sub(began))
				}
				switch {
				case i == 1 && n == 1:
					// sleep: fake clock; the next call is late, the one after that is not
					time.Sleep(13 * time.Second)
				case i == 2:
					return Never
				}
				return 10 * time.Second
			},
		}
		ctx, stop := context.WithTimeout(t.Context(), 35*time.Second)
		defer stop()
		s.Run(ctx)
		sec := time.Second
		want := map[int][]time.Duration{0: {0, 10 * sec, 20 * sec, 30 * sec}, 1: {1 * sec, 14 * sec, 21 * sec, 31 * sec},
			2: {2 * sec}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("times of calls (-want +got):\n%s", diff)
		}
	})
}

// TestScheduleAtOnce checks that concurrent calls are limited, that all members get their turn, and
// that Run ends with the last call without canceling it.
func TestScheduleAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var now, most, all int
		s := &Schedule{
			Members: 1000, AtOnce: 7, First: func(int) time.Duration { return 0 },
			Call: func(ctx context.Context, _ int, _ time.Time) time.Duration {
				mu.Lock()
				now, all = now+1, all+1
				most = max(most, now)
				mu.Unlock()
				time.Sleep(time.Second) // sleep: fake clock
				mu.Lock()
				defer mu.Unlock()
				now--
				if ctx.Err() != nil {
					t.Error("got a canceled call")
				}
				return Never
			},
		}
		began := time.Now()
		s.Run(t.Context())
		if took := time.Since(began); most != 7 || all != 1000 || took != 143*time.Second {
			t.Errorf("got %d calls, %d at once, in %s, want 1000, 7, 2m23s", all, most, took)
		}
		all = 0
		ctx, stop := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer stop()
		s.Run(ctx)
		if all != 14 || now != 0 {
			t.Errorf("canceled: got %d calls and %d in progress, want 14 and 0", all, now)
		}
	})
}

// TestScheduleMemory checks the memory of a waiting member.
func TestScheduleMemory(t *testing.T) {
	const members = 1_000_000
	ctx, stop := context.WithCancel(t.Context())
	s := &Schedule{Members: members, AtOnce: 1, First: func(i int) time.Duration { return time.Duration(members - i) },
		Call: func(context.Context, int, time.Time) time.Duration {
			stop()
			return time.Hour
		}}
	r := testing.Benchmark(func(b *testing.B) {
		for range b.N {
			s.Run(ctx)
		}
	})
	if got := r.AllocedBytesPerOp() / members; got > 24 {
		t.Errorf("memory of a member: got %d bytes, want at most 24", got)
	}
}

func TestHistogram(t *testing.T) {
	var h Histogram
	if h.Quantile(0.5) != 0 || h.Most() != 0 || h.Count() != 0 {
		t.Errorf("empty: got %s, %s, %d", h.Quantile(0.5), h.Most(), h.Count())
	}
	for i := range 1000 {
		h.Add(time.Duration(i+1) * time.Millisecond)
	}
	h.Add(100 * time.Hour)
	for q, want := range map[float64]time.Duration{0: time.Millisecond, 0.5: 501 * time.Millisecond,
		0.99: 991 * time.Millisecond} {
		if got := h.Quantile(q); got < want || got > want+want/18 {
			t.Errorf("quantile %v: got %s, want %s or up to 5 %% more", q, got, want)
		}
	}
	if h.Count() != 1001 || h.Most() != 100*time.Hour {
		t.Errorf("got %d, %s", h.Count(), h.Most())
	}
}
