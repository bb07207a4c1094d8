package contest

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
)

// TestPaced checks that calls are made at their rate however long they take, and that latencies
// count from when a call was due.
func TestPaced(t *testing.T) {
	broken := errors.New("broken")
	for _, tt := range []struct {
		name    string
		slow    time.Duration // each call
		fail    int64         // which call fails
		want    int
		longest time.Duration
		err     error
	}{
		{"fast", 0, 0, 20, 0, nil},
		{"slower than its rate", 900 * time.Millisecond, 0, 20, 900 * time.Millisecond, nil},
		// The second call of five members is late by half a second.
		{"slower than a second", 1500 * time.Millisecond, 0, 15, 2 * time.Second, nil},
		{"failure", 0, 5, 4, 0, broken},
	} {
		synctest.Test(t, func(t *testing.T) {
			var n atomic.Int64
			p := &Paced{Rate: 10, Calls: &Calls{conns: make([]*grpc.ClientConn, 1),
				call: func(context.Context, grpc.ClientConnInterface) error {
					time.Sleep(tt.slow) // sleep: fake clock
					if n.Add(1) == tt.fail {
						return broken
					}
					return nil
				}}}
			latencies, err := p.Run(t.Context(), 2*time.Second-time.Millisecond)
			if len(latencies) != tt.want || !errors.Is(err, tt.err) {
				t.Errorf("%s: got %d calls, %v, want %d, %v", tt.name, len(latencies), err, tt.want, tt.err)
			}
			if len(latencies) > 0 && slices.Max(latencies) != tt.longest {
				t.Errorf("%s: got a latency of %s, want at most %s", tt.name, slices.Max(latencies), tt.longest)
			}
		})
	}
}

// turns is a Loader that notes its slices.
type turns struct {
	name string
	all  *[]string
}

func (l turns) Run(context.Context, time.Duration) ([]time.Duration, error) {
	*l.all = append(*l.all, l.name)
	return []time.Duration{time.Millisecond}, nil
}

// TestInterleave checks the order of the slices, and that the first round does not count.
func TestInterleave(t *testing.T) {
	var got []string
	out, err := Interleave(t.Context(), 3, time.Second, []*Contender{{Name: "a", Load: turns{"a", &got}},
		{Name: "b", Load: turns{"b", &got}}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a", "b", "b", "a", "a", "b", "b", "a"}, got); diff != "" {
		t.Errorf("slices (-want +got):\n%s", diff)
	}
	if o := out["b"]; len(o.Rate) != 3 || len(o.Slices) != 3 || len(o.Latencies) != 3 {
		t.Errorf("got %d rates, %d slices, %d latencies, want 3 of each", len(o.Rate), len(o.Slices), len(o.Latencies))
	}
}

// TestUnder checks that both loads run, and that only one counts.
func TestUnder(t *testing.T) {
	var got []string
	u := &Under{Loader: turns{"a", &got}, Background: turns{"b", new([]string)}}
	if latencies, err := u.Run(t.Context(), time.Second); len(latencies) != 1 || err != nil || len(got) != 1 {
		t.Errorf("got %v, %v, %v, want one latency", latencies, err, got)
	}
	broken := &Under{Loader: turns{"a", &got}, Background: failing{}}
	if _, err := broken.Run(t.Context(), time.Second); err == nil {
		t.Error("failure in the background: got no error")
	}
}

type failing struct{}

func (failing) Run(context.Context, time.Duration) ([]time.Duration, error) {
	return nil, errors.New("failed")
}
