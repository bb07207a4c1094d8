package load

import (
	"container/heap"
	"context"
	"time"
)

// Never is how long a member waits that has nothing to say any more.
const Never = time.Duration(-1)

// Schedule has many members do something again and again, each when it is due, whether others have
// been answered or not. A member has at most one call under way. There is no goroutine for each
// member, but one for each call: a member that waits takes 16 bytes.
type Schedule struct {
	Members int
	// AtOnce bounds the calls that are under way. Who is due while there are as many waits for one
	// to end.
	AtOnce int
	// First says how long after the start a member is due for the first time.
	First func(i int) time.Duration
	// Call is one call of a member that was due at a moment. It gives how long after that moment
	// the member is due again, or Never. Its context goes on when that of Run ends, so that what
	// was asked is answered.
	Call func(ctx context.Context, i int, due time.Time) time.Duration
}

// turn is when a member is due, as a time after the start.
type turn struct {
	after  time.Duration
	member int
}

// Run goes on until ctx ends, or until no member has anything to say, and then waits for the calls
// that are under way.
func (s *Schedule) Run(ctx context.Context) {
	began := time.Now()
	calls := context.WithoutCancel(ctx)
	waiting := make(turns, s.Members)
	for i := range waiting {
		waiting[i] = turn{s.First(i), i}
	}
	heap.Init(&waiting)
	ended := make(chan turn, s.AtOnce) // no call waits to say that it has ended
	underWay := 0
	timer := time.NewTimer(0)
	defer timer.Stop()
	back := func(t turn) {
		underWay--
		if t.after != Never {
			heap.Push(&waiting, t)
		}
	}
	for len(waiting) > 0 || underWay > 0 {
		var due <-chan time.Time
		if len(waiting) > 0 && underWay < s.AtOnce {
			next := waiting[0].after - time.Since(began)
			if next <= 0 && ctx.Err() == nil {
				t := heap.Pop(&waiting).(turn)
				underWay++
				go func() { // Run waits for it
					next := s.Call(calls, t.member, began.Add(t.after))
					if next != Never {
						next += t.after
					}
					ended <- turn{next, t.member}
				}()
				continue
			}
			timer.Reset(next)
			due = timer.C
		}
		select {
		case <-ctx.Done():
			for ; underWay > 0; underWay-- {
				<-ended
			}
			return
		case t := <-ended:
			back(t)
		case <-due:
		}
	}
}

// turns is a heap: who is due first is in front.
type turns []turn

func (h turns) Len() int           { return len(h) }
func (h turns) Less(i, j int) bool { return h[i].after < h[j].after }
func (h turns) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push adds one at the end, for container/heap.
func (h *turns) Push(x any) { *h = append(*h, x.(turn)) }

// Pop takes the last one off, for container/heap.
func (h *turns) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
