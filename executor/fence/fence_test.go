package fence

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/providers"
)

var errNotLeader = errors.New("not the leader")

// A confirmation permits an effect until 500 ms after it was requested. It is invalid if a majority
// took longer than 100 ms.
func TestPermit(t *testing.T) {
	tests := []struct {
		name  string
		takes time.Duration
		err   error
		ok    bool
	}{
		{"quick majority", 99 * time.Millisecond, nil, true},
		{"slow majority", 100 * time.Millisecond, nil, false},
		{"replaced", 0, errNotLeader, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := Fence{Confirm: func(context.Context) error {
					time.Sleep(tt.takes) // sleep: in a synctest bubble
					return tt.err
				}}
				asked := time.Now()
				notAfter, err := f.permit(t.Context())
				if (err == nil) != tt.ok || tt.err != nil && !errors.Is(err, tt.err) {
					t.Errorf("got %v, want success: %t", err, tt.ok)
				}
				if want := asked.Add(EffectValid); tt.ok && !notAfter.Equal(want) {
					t.Errorf("got %s, want %s", notAfter, want)
				}
			})
		})
	}
}

// An effect that was late, or whose term was not confirmed, is tried again. Any other error ends
// it.
func TestDo(t *testing.T) {
	late := providers.Errorf(providers.Late, "press", "too late")
	refused := providers.Errorf(providers.Unsupported, "press", "no")
	tests := []struct {
		name     string
		confirms []error
		does     []error
		want     error
		announce int
		late     []int
	}{
		{"at once", []error{nil}, []error{nil}, nil, 1, nil},
		{"confirmed at the third try", []error{errNotLeader, errNotLeader, nil}, []error{nil}, nil, 1, nil},
		{"late twice", []error{nil, nil, nil}, []error{late, late, nil}, nil, 1, []int{1, 2}},
		{"refused", []error{nil}, []error{refused}, refused, 1, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var confirmed, done, announced int
				var lates []int
				f := Fence{Confirm: func(context.Context) error { confirmed++; return tt.confirms[confirmed-1] }}
				err := f.Do(t.Context(), Effect{
					Do: func(ctx context.Context) error {
						if err := providers.InTime(ctx, "press"); err != nil {
							t.Errorf("time to send the effect: %v", err)
						}
						done++
						return tt.does[done-1]
					},
					Confirmed: func() { announced++ },
					Late:      func(n int, _ error) { lates = append(lates, n) },
					Pause:     time.Millisecond, MaxPause: 10 * time.Millisecond,
				})
				if !errors.Is(err, tt.want) {
					t.Errorf("got %v, want %v", err, tt.want)
				}
				if confirmed != len(tt.confirms) || done != len(tt.does) || announced != tt.announce {
					t.Errorf("got %d confirmations, %d effects and %d announcements, want %d, %d, %d",
						confirmed, done, announced, len(tt.confirms), len(tt.does), tt.announce)
				}
				if diff := cmp.Diff(tt.late, lates); diff != "" {
					t.Errorf("late (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// Without a majority, Do does not start the effect, and returns when its context ends.
func TestNoEffectWithoutMajority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		f := Fence{Confirm: func(context.Context) error { return errNotLeader }}
		err := f.Do(ctx, Effect{
			Do:        func(context.Context) error { t.Error("got an effect, want none"); return nil },
			Confirmed: func() { t.Error("got an announcement, want none") },
			Pause:     time.Millisecond, MaxPause: time.Second,
		})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
		}
	})
}

// A new leader waits until no effect of an earlier one can arrive, counted from the start of its
// term.
func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		f := Fence{Began: began}
		time.Sleep(Age / 2) // sleep: in a synctest bubble
		for range 2 {       // the second call returns at once
			if err := f.Await(t.Context()); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took != Age {
				t.Errorf("got a wait of %s after the election, want %s", took, Age)
			}
		}
	})
}
