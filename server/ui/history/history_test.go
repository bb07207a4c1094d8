package history

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/holdfast-metal/holdfast/cluster"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// leaders returns the given leaders one after the other, and then always the last.
type leaders []func() (string, *holdfastv1.PeerLoad, error)

func (l *leaders) LeaderLoad(context.Context) (string, *holdfastv1.PeerLoad, error) {
	f := (*l)[0]
	if len(*l) > 1 {
		*l = (*l)[1:]
	}
	return f()
}

// says returns a leader that has committed n commands, all of them in the given bucket.
func says(id string, commands uint64, place int) func() (string, *holdfastv1.PeerLoad, error) {
	return func() (string, *holdfastv1.PeerLoad, error) {
		l := &holdfastv1.PeerLoad{Leases: 30, LeaseRate: 3, Commands: commands,
			Commits: make([]uint64, cluster.CommitBounds+1)}
		l.Commits[place] = commands
		return id, l, nil
	}
}

func noLeader() (string, *holdfastv1.PeerLoad, error) { return "", nil, errors.New("no leader") }

// TestHistory: rates are between two samples of the same leader without a restart. A
// missing leader is a gap.
func TestHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		old := func() (string, *holdfastv1.PeerLoad, error) { return "n3", nil, nil }
		h := New(Config{Every: 10 * time.Second}, &leaders{says("n1", 100, 0), says("n1", 150, 0), says("n1", 150, 0),
			noLeader, says("n2", 900, 2), says("n2", 5, 2), says("n2", 25, 2), old})
		ended := make(chan error)
		go func() { ended <- h.Run(ctx) }()
		time.Sleep(75 * time.Second) // sleep: fake clock
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
		type row struct {
			Leader     string
			Known      bool
			Commands   float64
			Half, Most time.Duration
		}
		var got []row
		for _, s := range h.Samples() {
			got = append(got, row{s.Leader, s.Known, s.Commands, s.Half, s.Most})
		}
		want := []row{
			{Leader: "n1"}, {"n1", true, 5, 50 * time.Microsecond, 100 * time.Microsecond}, {Leader: "n1",
				Known: true}, {}, {Leader: "n2"}, {Leader: "n2"},
			{"n2", true, 2, 175 * time.Microsecond, 200 * time.Microsecond}, {Leader: "n3"},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("samples (-want +got):\n%s", diff)
		}
		if h.Taken() != 8 {
			t.Errorf("got %d samples, want 8", h.Taken())
		}
	})
}

// TestRing: the history keeps the latest samples in order, however long it runs.
func TestRing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keep, n := rapid.IntRange(1, 20).Draw(t, "keep"), rapid.IntRange(0, 60).Draw(t, "n")
		at := time.Unix(0, 0)
		h := New(Config{Keep: keep, Now: func() time.Time { at = at.Add(time.Second); return at }}, &leaders{noLeader})
		for range n {
			h.take(t.Context())
		}
		var got, want []int64
		for _, s := range h.Samples() {
			got = append(got, s.At.Unix())
		}
		for i := max(n-keep, 0); i < n; i++ {
			want = append(want, int64(i+1))
		}
		if !slices.Equal(got, want) {
			t.Fatalf("got samples of %v, want %v", got, want)
		}
	})
}

// TestQuantile: a quantile is within the bucket of its command, and grows with the
// percentage.
func TestQuantile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		counts := rapid.SliceOfN(rapid.Uint64Range(0, 50), cluster.CommitBounds+1, cluster.CommitBounds+1).Draw(t, "counts")
		var places []int
		for i, n := range counts {
			for range n {
				places = append(places, i)
			}
		}
		before := time.Duration(0)
		for percent := uint64(1); percent <= 100; percent++ {
			got := quantile(counts, percent)
			if len(places) == 0 {
				if got != 0 {
					t.Fatalf("without commands: got %v", got)
				}
				continue
			}
			place := places[(uint64(len(places))*percent+99)/100-1]
			least, most := time.Duration(0), cluster.CommitBound(min(place, cluster.CommitBounds-1))
			if place > 0 {
				least = cluster.CommitBound(place - 1)
			}
			if got < least || got > most || got < before {
				t.Fatalf("%d in 100 of %v: got %v, want %v to %v, and at least %v", percent, counts, got, least, most, before)
			}
			before = got
		}
	})
}
