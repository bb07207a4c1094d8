package series

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func small() Config {
	return Config{MaxSeries: 2, Resolutions: []Resolution{{time.Second, 5}, {4 * time.Second, 10}}}
}

var begin = time.Unix(1_000_000, 0)

// sample is one sample, in seconds after begin.
type sample struct {
	at int
	v  float64
}

// expected returns the combination of the samples from one second until before another.
func expected(kind Kind, all []sample, from, to int) (v float64, known bool) {
	n := 0.0
	for _, s := range all {
		if s.at < from || s.at >= to {
			continue
		}
		switch {
		case n == 0, kind == Last:
			v = s.v
		case kind == Max:
			v = max(v, s.v)
		default:
			v += s.v
		}
		n++
	}
	if kind == Mean && n > 0 {
		v /= n
	}
	return v, n > 0
}

// TestNoSampleIsLost: at each resolution, and in groups of periods, every point is the
// combination of exactly the samples within it.
func TestNoSampleIsLost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind := Kind(rapid.IntRange(int(Last), int(Sum)).Draw(t, "kind"))
		s := New(small())
		var all []sample
		now := 0
		for range rapid.IntRange(0, 60).Draw(t, "samples") {
			now += rapid.SampledFrom([]int{0, 0, 1, 1, 2, 9, 50}).Draw(t, "pause")
			x := sample{now, float64(rapid.IntRange(0, 99).Draw(t, "value"))}
			all = append(all, x)
			s.Add("x", kind, begin.Add(time.Duration(x.at)*time.Second), x.v)
		}
		res := rapid.IntRange(0, 1).Draw(t, "resolution")
		r := small().Resolutions[res]
		group := rapid.IntRange(1, r.Keep).Draw(t, "group")
		q := Query{Resolution: res, Group: group, N: r.Keep / group, To: begin.Add(time.Duration(now) * time.Second)}
		first, step := int(s.From(q).Sub(begin).Seconds()), int(s.Step(q).Seconds())
		oldest := (int(begin.Unix())+now)/int(r.Every.Seconds()) - r.Keep + 1 // a period of the ring
		for i, got := range s.Read("x", q) {
			from := max(first+i*step, oldest*int(r.Every.Seconds())-int(begin.Unix()))
			want, known := expected(kind, all, from, first+(i+1)*step)
			if known != (got.Periods > 0) || math.Abs(got.Value-want) > 1e-3 {
				t.Fatalf("kind %d, point %d of %+v: got %+v, want %v, known %t", kind, i, q, got, want, known)
			}
		}
	})
}

// TestLateSamples: an event that is counted late belongs to its own time, as long as the
// series reaches back so far.
func TestLateSamples(t *testing.T) {
	s := New(small())
	s.Cover("runs", begin.Add(3*time.Second), begin.Add(8*time.Second))
	for _, ago := range []int{0, 2, 4, 5, 900} {
		s.Add("runs", Sum, begin.Add(time.Duration(8-ago)*time.Second), 1)
	}
	want := []Point{{1, 1}, {0, 1}, {1, 1}, {0, 1}, {1, 1}}
	if diff := cmp.Diff(want, s.Read("runs", Query{Group: 1, N: 5, To: begin.Add(8 * time.Second)})); diff != "" {
		t.Errorf("points (-want +got):\n%s", diff)
	}
	want = []Point{{}, {3, 2}, {1, 1}}
	if diff := cmp.Diff(want, s.Read("runs", Query{Resolution: 1, Group: 2, N: 3,
		To: begin.Add(8 * time.Second)})); diff != "" {
		t.Errorf("points at the next resolution (-want +got):\n%s", diff)
	}
}

// TestMaximum: a series beyond the maximum is ignored until another one has no sample left.
func TestMaximum(t *testing.T) {
	s := New(small())
	var got []string
	for i, at := range []int{0, 1, 2, 39, 40, 41} {
		ok := s.Add(fmt.Sprintf("s-%d", i), Last, begin.Add(time.Duration(at)*time.Second), 1)
		got = append(got, fmt.Sprint(ok, s.Names()))
	}
	want := []string{"true [s-0]", "true [s-0 s-1]", "false [s-0 s-1]", "false [s-0 s-1]", "true [s-4]", "true [s-4 s-5]"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
}

// TestCombine: combining the points of a stretch gives the point of the whole stretch, if all
// periods have as many samples.
func TestCombine(t *testing.T) {
	for kind := Last; kind <= Sum; kind++ {
		s := New(small())
		for i := range 10 {
			s.Add("x", kind, begin.Add(time.Duration(i)*4*time.Second), float64(i*i%7))
		}
		to := begin.Add(36 * time.Second)
		want := s.Read("x", Query{Resolution: 1, Group: 10, N: 2, To: to})
		got := Combine(kind, s.Read("x", Query{Resolution: 1, Group: 1, N: 20, To: to}))
		whole := Combine(kind, append([]Point{{}}, want...))
		if got.Periods != 10 || math.Abs(got.Value-whole.Value) > 1e-6 {
			t.Errorf("kind %d: got %+v of single periods, and %+v of groups", kind, got, whole)
		}
	}
	if got := Combine(Sum, []Point{{}, {}}); got.Periods != 0 {
		t.Errorf("unknown points: got %+v", got)
	}
}
