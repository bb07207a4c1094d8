package readindex

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-metal/holdfast/cluster/internal/wait"
	"github.com/holdfast-metal/holdfast/cluster/outcome"
)

// voter answers when the test allows it.
type voter struct {
	asked atomic.Int32
	allow chan error
}

func newConfirmer(t *testing.T, self bool, voters map[string]*voter) *Confirmer {
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	var ids []string
	for id := range voters {
		ids = append(ids, id)
	}
	return &Confirmer{
		ctx:    ctx,
		voters: func() ([]string, bool) { return ids, self },
		ask: func(ctx context.Context, id string, _ uint64) error {
			voters[id].asked.Add(1)
			select {
			case err := <-voters[id].allow:
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		},
	}
}

func newVoter() *voter { return &voter{allow: make(chan error)} }

func TestConfirmNeedsAnswerToLaterRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, gone := newVoter(), newVoter()
		c := newConfirmer(t, true, map[string]*voter{"b": b, "gone": gone})
		var first, second atomic.Bool
		var wg sync.WaitGroup
		wg.Go(func() { first.Store(c.Confirm(t.Context(), 1, "") == nil) })
		synctest.Wait()
		wg.Go(func() { second.Store(c.Confirm(t.Context(), 1, "") == nil) })
		synctest.Wait()
		b.allow <- nil // the answer to the request of the first call
		synctest.Wait()
		if !first.Load() || second.Load() {
			t.Errorf("after the first answer: got first %t, second %t, want only the first", first.Load(), second.Load())
		}
		b.allow <- nil
		synctest.Wait()
		if !second.Load() {
			t.Error("the second call was not confirmed by the second answer")
		}
		wg.Wait()
		if got := b.asked.Load(); got != 2 {
			t.Errorf("requests to b: got %d, want 2", got)
		}
	})
}

func TestConfirmShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, d := newVoter(), newVoter()
		c := newConfirmer(t, true, map[string]*voter{"b": b, "d": d})
		var wg sync.WaitGroup
		var ok atomic.Int32
		one := func() {
			if err := c.Confirm(t.Context(), 1, ""); err == nil {
				ok.Add(1)
			}
		}
		wg.Go(one)
		synctest.Wait()
		for range 100 {
			wg.Go(one)
		}
		synctest.Wait()
		b.allow <- nil
		b.allow <- nil
		wg.Wait()
		if got := ok.Load(); got != 101 {
			t.Errorf("got %d confirmed calls, want 101", got)
		}
		if got := b.asked.Load(); got != 2 {
			t.Errorf("requests to b for 101 calls: got %d, want 2", got)
		}
	})
}

// TestConfirmSendsFewRequests checks that recent responders get requests, and the others only if
// those do not answer.
func TestConfirmSendsFewRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, d := newVoter(), newVoter()
		c := newConfirmer(t, true, map[string]*voter{"b": b, "d": d})
		confirmed := func() <-chan error {
			done := make(chan error, 1)
			go func() { done <- c.Confirm(t.Context(), 1, "") }()
			synctest.Wait()
			return done
		}
		first := confirmed()
		b.allow <- nil
		if err := <-first; err != nil {
			t.Fatal(err)
		}
		d.allow <- errors.New("too late") // no call waits for it
		for range 10 {
			done := confirmed()
			b.allow <- nil
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * confirmHedge) // sleep: time of synctest, in which the other peer does not answer
		}
		if b, d := b.asked.Load(), d.asked.Load(); b != 11 || d != 1 {
			t.Errorf("requests: got %d to the responder and %d to the other peer, want 11 and 1", b, d)
		}
		began := time.Now()
		done := confirmed()
		d.allow <- nil // b no longer answers
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != confirmHedge {
			t.Errorf("got a request to the other peer after %s, want %s", took, confirmHedge)
		}
	})
}

// TestConfirmVoucherCountsForItsCallOnly checks that an acknowledgement does not confirm earlier or
// later calls.
func TestConfirmVoucherCountsForItsCallOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, d := newVoter(), newVoter()
		c := newConfirmer(t, true, map[string]*voter{"b": b, "d": d})
		var ok atomic.Int32
		var wg sync.WaitGroup
		one := func() {
			if c.Confirm(t.Context(), 1, "") == nil {
				ok.Add(1)
			}
		}
		wg.Go(one)
		synctest.Wait()
		if err := c.Confirm(t.Context(), 1, "b"); err != nil {
			t.Fatal(err)
		}
		wg.Go(one)
		synctest.Wait()
		if got := ok.Load(); got != 0 {
			t.Errorf("got %d calls confirmed by an acknowledgement of another call, want 0", got)
		}
		b.allow <- nil
		b.allow <- nil
		wg.Wait()
	})
}

func TestConfirmNeedsAMajority(t *testing.T) {
	refusal, silent := errors.New("term 2"), wait.ErrStopped
	for _, tc := range []struct {
		name    string
		self    bool
		answers []error // of the other voters b, c and so on; silent means no answer
		want    bool
		ackedBy string
	}{
		{"alone", true, nil, true, ""},
		{"one of three answers", true, []error{nil, silent}, true, ""},
		{"one of three refuses, one answers", true, []error{refusal, nil}, true, ""},
		{"both refuse", true, []error{refusal, refusal}, false, ""},
		{"no answer", true, []error{silent, silent}, false, ""},
		{"two peers, one answers", true, []error{nil}, true, ""},
		{"two peers, one refuses", true, []error{refusal}, false, ""},
		{"four peers, one answers", true, []error{nil, silent, silent}, false, ""},
		{"four peers, two answer", true, []error{nil, nil, silent}, true, ""},
		{"not a voter itself, one of two answers", false, []error{nil, silent}, false, ""},
		{"not a voter itself, both answer", false, []error{nil, nil}, true, ""},
		{"one of three has acknowledged", true, []error{silent, silent}, true, "c"},
		{"a nonvoter has acknowledged", true, []error{silent, silent}, false, "x"},
		{"not a voter itself, one of two has acknowledged", false, []error{silent, silent}, false, "c"},
		{"four peers, one has acknowledged", true, []error{silent, silent, silent}, false, "c"},
		{"four peers, one has acknowledged, another answers", true, []error{nil, silent, silent}, true, "c"},
		{"four peers, only the one that has acknowledged answers", true, []error{silent, nil, silent}, false, "c"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var ids []string
				for i := range tc.answers {
					ids = append(ids, string(rune('b'+i)))
				}
				c := &Confirmer{
					ctx:    ctx,
					voters: func() ([]string, bool) { return ids, tc.self },
					ask: func(ctx context.Context, id string, _ uint64) error {
						err := tc.answers[id[0]-'b']
						if errors.Is(err, silent) {
							<-ctx.Done()
						}
						return err
					},
				}
				call, stop := context.WithTimeout(ctx, 5*time.Second)
				defer stop()
				err := c.Confirm(call, 1, tc.ackedBy)
				if (err == nil) != tc.want {
					t.Errorf("got %v, want confirmed: %t", err, tc.want)
				}
				cancel()
				synctest.Wait()
			})
		})
	}
}

func TestConfirmEndsWithTheTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newVoter()
		c := newConfirmer(t, true, map[string]*voter{"b": b})
		done := make(chan error, 1)
		go func() { done <- c.Confirm(t.Context(), 3, "") }()
		synctest.Wait()
		c.End(4)
		if err := <-done; !errors.Is(err, outcome.ErrNotLeader) {
			t.Errorf("got %v, want %v", err, outcome.ErrNotLeader)
		}
		if err := c.Confirm(t.Context(), 3, ""); !errors.Is(err, outcome.ErrNotLeader) {
			t.Errorf("confirm an ended term: got %v, want %v", err, outcome.ErrNotLeader)
		}
		// An answer for the old term does not confirm the new one.
		go func() { done <- c.Confirm(t.Context(), 4, "") }()
		synctest.Wait()
		b.allow <- nil
		synctest.Wait()
		select {
		case err := <-done:
			t.Errorf("answer for term 3: got term 4 confirmed: %v", err)
		default:
		}
		b.allow <- nil
		if err := <-done; err != nil {
			t.Errorf("confirm term 4: %v", err)
		}
	})
}

func TestCoalescer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := make(chan uint64)
		calls := 0
		c := &Coalescer{ctx: t.Context(), do: func(context.Context) (uint64, error) {
			calls++
			return <-next, nil
		}}
		var wg sync.WaitGroup
		var got [11]uint64
		ask := func(i int) {
			wg.Go(func() { got[i], _ = c.Get(t.Context()) })
			synctest.Wait()
		}
		ask(0)
		for i := range 10 {
			ask(i + 1) // while the first request is in flight, so its answer is too old for these
		}
		next <- 5
		next <- 6
		wg.Wait()
		if got[0] != 5 || got[1] != 6 || got[10] != 6 {
			t.Errorf("got %v, want 5 and then 6", got)
		}
		if calls != 2 {
			t.Errorf("got %d calls for 11 readers, want 2", calls)
		}
	})
}
