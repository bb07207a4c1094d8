package load

import (
	"container/heap"
	"context"
	"time"
)

// Never is the wait of a member without a next call.
const Never = time.Duration(-1)

// Schedule calls many members periodically, each at its due time, without waiting for the calls
// of others. A member has at most one active call. Each call has a goroutine; a waiting member
// takes 16 bytes.
type Schedule struct {
	Members int
	// AtOnce bounds the active calls. Members that are due beyond it wait.
	AtOnce int
	// First returns the time from the start to the first call of a member.
	First func(i int) time.Duration
	// Call makes one call of a member with its due time. It returns the time from then to the next
	// call, or Never. Its context outlives that of Run, so that active calls end normally.
	Call func(ctx context.Context, i int, due time.Time) time.Duration
}

// turn is a due time of a member, relative to the start.
type turn struct {
	after  time.Duration
	member int
}

// Run runs until ctx ends or no member has a next call, and then waits for the active calls.
func (s *Schedule) Run(ctx context.Context) {
	began := time.Now()
	calls := context.WithoutCancel(ctx)
	waiting := make(turns, s.Members)
	for i := range waiting {
		waiting[i] = turn{s.First(i), i}
	}
	heap.Init(&waiting)
	ended := make(chan turn, s.AtOnce) // so that no call blocks at its end
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

// turns is a heap, with the earliest due time in front.
type turns []turn

func (h turns) Len() int           { return len(h) }
func (h turns) Less(i, j int) bool { return h[i].after < h[j].after }
func (h turns) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *turns) Push(x any) { *h = append(*h, x.(turn)) }

// Pop implements heap.Interface.
func (h *turns) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
