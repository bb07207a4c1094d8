package hedge

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// answer is the behavior of a target: it answers or fails after a time.
type answer struct {
	after time.Duration
	err   error
}

var (
	errDown = errors.New("down")
	hangs   = answer{after: 24 * time.Hour}
)

// asked is the result of a race: the start of each target, the winner, and the late targets.
type asked struct {
	Begun  []time.Duration
	Winner int // -1: none
	Took   time.Duration
	Late   []int
}

func runRace(ctx context.Context, pace *Pace, targets ...answer) asked {
	start, got := time.Now(), asked{Winner: -1}
	begun := make([]time.Duration, len(targets))
	for i := range begun {
		begun[i] = -1
	}
	got.Late = Race(ctx, pace, len(targets), func(ctx context.Context, i int) error {
		begun[i] = time.Since(start)
		select {
		case <-time.After(targets[i].after):
			return targets[i].err
		case <-ctx.Done():
			return ctx.Err()
		}
	}, func(i int, err error) bool {
		if err == nil {
			got.Winner = i
		}
		return err == nil
	})
	got.Took = time.Since(start)
	for _, b := range begun {
		if b >= 0 {
			got.Begun = append(got.Begun, b)
		}
	}
	return got
}

func TestRace(t *testing.T) {
	const ms = time.Millisecond
	for _, tt := range []struct {
		name    string
		targets []answer
		want    asked
	}{
		{"the first answers", []answer{{after: ms}, {}}, asked{Begun: []time.Duration{0}, Winner: 0, Took: ms}},
		{"the first hangs", []answer{hangs, {after: ms}, {}}, asked{Begun: []time.Duration{0, First}, Winner: 1,
			Took: First + ms, Late: []int{0}}},
		{"first target slow", []answer{{after: First + ms}, hangs},
			asked{Begun: []time.Duration{0, First}, Winner: 0, Took: First + ms}},
		{"the first fails", []answer{{after: ms, err: errDown}, {after: ms}},
			asked{Begun: []time.Duration{0, ms}, Winner: 1, Took: 2 * ms}},
		{"one hanging, one down", []answer{hangs, {err: errDown}, {after: ms}},
			asked{Begun: []time.Duration{0, First, First}, Winner: 2, Took: First + ms, Late: []int{0}}},
		{"two hang", []answer{hangs, hangs, {}}, asked{Begun: []time.Duration{0, First, 2 * First}, Winner: 2,
			Took: 2 * First, Late: []int{0, 1}}},
		{"all down", []answer{{err: errDown}, {err: errDown}}, asked{Begun: []time.Duration{0, 0}, Winner: -1}},
		{"single slow target", []answer{{after: time.Minute}},
			asked{Begun: []time.Duration{0}, Winner: 0, Took: time.Minute}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if diff := cmp.Diff(tt.want, runRace(t.Context(), &Pace{}, tt.targets...)); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		})
	}
}

// A short time is divided, so that the last target is tried too.
func TestRaceSharesAShortTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		got := runRace(ctx, &Pace{}, hangs, hangs, answer{})
		if got.Winner != 2 || got.Took != 2*time.Second {
			t.Errorf("got %+v, want the third target after 2 s", got)
		}
	})
}

func TestRaceEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if got := runRace(ctx, &Pace{}, hangs, hangs); got.Winner != -1 || got.Took != 10*time.Second {
			t.Errorf("got %+v, want no winner after 10 s", got)
		}
	})
}

// While a second request does not help, it is sent less and less often. Once it helps, it is sent
// at once again.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pace Pace
		busy := answer{after: 30 * time.Second} // like all targets
		var waits []time.Duration
		for range 5 {
			waits = append(waits, runRace(t.Context(), &pace, busy, busy).Begun[1])
		}
		if diff := cmp.Diff([]time.Duration{First, 2 * First, 4 * First, last, last}, waits); diff != "" {
			t.Errorf("start of the second target (-want +got):\n%s", diff)
		}
		runRace(t.Context(), &pace, answer{}, answer{})
		if got := runRace(t.Context(), &pace, hangs, answer{}); got.Took != First {
			t.Errorf("after an answer in time: got %+v, want the second target after %v", got, First)
		}
		pace.inVain()
		runRace(t.Context(), &pace, hangs, answer{})
		if got := runRace(t.Context(), &pace, hangs, answer{}); got.Took != First {
			t.Errorf("after it helped: got %+v, want the second target after %v", got, First)
		}
	})
}

func TestOrder(t *testing.T) {
	o := NewOrder(3, 1)
	for _, tt := range []struct {
		name string
		do   func()
		want []int
	}{
		{"start position", func() {}, []int{1, 2, 0}},
		{"failed target last", func() { o.Leave(1) }, []int{2, 0, 1}},
		{"second failure there", func() { o.Leave(1) }, []int{2, 0, 1}},
		{"late target last", func() { o.Late(0) }, []int{2, 1, 0}},
		{"late target stays last", func() { o.Late(0); o.Leave(2) }, []int{1, 0, 2}},
	} {
		tt.do()
		if diff := cmp.Diff(tt.want, o.List()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// The list always contains each target once.
func TestOrderKeepsAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 7).Draw(t, "n")
		o := NewOrder(n, rapid.IntRange(0, n-1).Draw(t, "first"))
		for _, target := range rapid.SliceOf(rapid.IntRange(-n, n-1)).Draw(t, "moves") {
			if target < 0 {
				o.Late(-target - 1)
			} else {
				o.Leave(target)
			}
			list := slices.Clone(o.List())
			slices.Sort(list)
			for i, got := range list {
				if got != i || len(list) != n {
					t.Fatalf("got list %v", o.List())
				}
			}
		}
	})
}

// The first target that answers wins, even if others fail or hang. No target is tried after the
// answer.
func TestRaceFindsTheAnswer(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(rt, "n")
		targets := make([]answer, n)
		well := false
		for i := range targets {
			targets[i] = rapid.SampledFrom([]answer{hangs, {err: errDown}, {}, {after: time.Second},
				{after: 3 * time.Second, err: errDown}}).Draw(rt, "target")
			well = well || targets[i].after < time.Minute && targets[i].err == nil
		}
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			got := runRace(ctx, &Pace{}, targets...)
			limit := time.Duration(n) * 4 * time.Second
			if n > 1 && well != (got.Winner >= 0) || well && n > 1 && got.Took > limit {
				t.Errorf("targets %v: got %+v", targets, got)
			}
			if got.Winner >= 0 && (targets[got.Winner].err != nil || len(got.Late) > got.Winner) {
				t.Errorf("targets %v: got %+v", targets, got)
			}
		})
	})
}
