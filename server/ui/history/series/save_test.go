package series

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestLoadContinues: a store that was saved and loaded continues like one that was not, and a
// copy does not change with the store.
func TestLoadContinues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind := Kind(rapid.IntRange(int(Last), int(Sum)).Draw(t, "kind"))
		now := begin
		add := func(stores ...*Store) {
			for range rapid.IntRange(0, 30).Draw(t, "samples") {
				now = now.Add(time.Duration(rapid.SampledFrom([]int{0, 1, 2, 9, 50}).Draw(t, "pause")) * time.Second)
				name, v := fmt.Sprint("s-", rapid.IntRange(0, 3).Draw(t, "series")), rapid.IntRange(0, 99).Draw(t, "value")
				for _, s := range stores {
					s.Add(name, kind, now, float64(v))
				}
			}
		}
		kept, old, loaded := New(small()), New(small()), New(small())
		add(kept, old)
		saved := old.Save()
		add(old)
		if err := loaded.Load(saved, now); err != nil {
			t.Fatal(err)
		}
		add(kept, loaded)
		if diff := cmp.Diff(kept.Save(), loaded.Save()); diff != "" {
			t.Fatalf("series (-kept +loaded):\n%s", diff)
		}
	})
}

// TestLoadRefuses: content that a store cannot have is refused as a whole.
func TestLoadRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*Saved)
		want   string
	}{
		"resolution": {func(s *Saved) { s.Resolutions = s.Resolutions[:1] }, "resolutions"},
		"number":     {func(s *Saved) { s.Tracks["b"], s.Tracks["c"] = SavedTrack{}, SavedTrack{} }, "load 3 series"},
		"kind": {func(s *Saved) { s.Tracks["b"] = SavedTrack{Sum + 1, s.Tracks["a"].Rings} },
			`"b": kind 4 with 2 rings`},
		"rings":  {func(s *Saved) { s.Tracks["b"] = SavedTrack{Sum, s.Tracks["a"].Rings[:1]} }, "with 1 rings"},
		"values": {func(s *Saved) { s.Tracks["a"].Rings[1].Values = nil }, "ring 1 has 0 values and 10 counts: want 10"},
		"counts": {func(s *Saved) { s.Tracks["a"].Rings[0].Counts = make([]uint32, 6) }, "5 values and 6 counts"},
		"past":   {func(s *Saved) { s.Tracks["a"].Rings[0].Newest = -1 }, "period -1: want 0 to"},
		"future": {func(s *Saved) { s.Tracks["a"].Rings[0].Newest += 2 },
			"ring 0 ends at period 1000002: want 0 to 1000001"},
	} {
		from, to := New(small()), New(small())
		from.Add("a", Max, begin, 7)
		to.Add("z", Max, begin, 1)
		saved := from.Save()
		tt.change(&saved)
		if err := to.Load(saved, begin.Add(time.Second)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", name, err, tt.want)
		}
		if diff := cmp.Diff([]string{"z"}, to.Names()); diff != "" {
			t.Errorf("%s: series (-want +got):\n%s", name, diff)
		}
	}
}
