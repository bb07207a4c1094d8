package lease_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/cluster/outcome"
)

// A heartbeat through a follower is answered only once the leader has committed it.
func TestFollowerAnswersAfterCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutpost(t)
		o.elect("p1", 0)
		o.register("m-1")
		release := o.stall()
		first := o.renewing(t.Context(), "m-1")
		pass(time.Second)
		synctest.Wait()
		select {
		case a := <-first:
			t.Fatalf("got answer %v, %v before the commit", a.outcome, a.err)
		default:
		}
		release()
		o.want("first heartbeat", <-first, renewed)
		if l, ok := o.state.View().Lease(machine, "m-1"); !ok || !l.GetReady() {
			t.Errorf("recorded lease: got %v, want it ready", l)
		}
		o.want("second one", o.renew(t.Context(), "m-1"), renewed)
		o.want("unknown machine", o.renew(t.Context(), "m-2"), unknown)
	})
}

// Heartbeats that arrive while the connection is busy are sent in one message. Each caller gets its
// own answer.
func TestCoalescing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutpost(t)
		p1 := o.elect("p1", 0)
		open := p1.shut()
		const n = 500
		var all []<-chan answer
		for i := range n {
			id := fmt.Sprintf("m-%d", i)
			if i%2 == 0 {
				o.register(id)
			}
			all = append(all, o.renewing(t.Context(), id))
		}
		synctest.Wait()
		open()
		for i, c := range all {
			want := renewed
			if i%2 != 0 {
				want = unknown
			}
			o.want(fmt.Sprintf("m-%d", i), <-c, want)
		}
		requests, streams := p1.seen()
		if diff := cmp.Diff([]int{n}, requests); diff != "" || streams != 1 {
			t.Errorf("messages on %d streams (-want +got):\n%s", streams, diff)
		}
	})
}

// Single heartbeats are sent in batches, at most a hundred per second. A full batch is sent at
// once.
func TestGather(t *testing.T) {
	const batchWindow, batchSize = 10 * time.Millisecond, 32
	synctest.Test(t, func(t *testing.T) {
		o := newOutpost(t)
		p1 := o.elect("p1", 0)
		o.want("first", o.renew(t.Context(), "x"), unknown)
		var all []<-chan answer
		for range 100 {
			all = append(all, o.renewing(t.Context(), "x"))
			pass(time.Millisecond)
		}
		for _, c := range all {
			o.want("one by one", <-c, unknown)
		}
		if requests, _ := p1.seen(); len(requests) > 12 {
			t.Errorf("got %d messages for a heartbeat per millisecond during a tenth of a second: %v", len(requests), requests)
		}
		all = nil
		for range 100 {
			all = append(all, o.renewing(t.Context(), "x"))
		}
		late := 0
		for _, c := range all {
			a := <-c
			o.want("all at once", a, unknown)
			if a.took >= batchWindow {
				late++
			}
		}
		if late >= batchSize {
			t.Errorf("got %d of %d heartbeats that waited for %s, want fewer than a batch", late, len(all), batchWindow)
		}
	})
}

// A late answer is not delivered to another caller.
func TestLateAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutpost(t)
		o.elect("p1", 0)
		const n = 20
		release := o.stall()
		var gone []<-chan answer
		ctx, leave := context.WithCancel(t.Context())
		for i := range n {
			o.register(fmt.Sprintf("m-%d", i))
			gone = append(gone, o.renewing(ctx, fmt.Sprintf("m-%d", i)))
		}
		synctest.Wait()
		leave()
		for i, c := range gone {
			o.wantNotApplied(fmt.Sprintf("m-%d, whose caller has gone", i), <-c, nil)
		}
		release()
		for i := range n {
			o.want("unknown machine", o.renew(t.Context(), fmt.Sprintf("x-%d", i)), unknown)
		}
	})
}

// If the leader and its connections are lost, waiting callers are answered by the next leader.
func TestLeaderDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutpost(t)
		p1 := o.elect("p1", 0)
		o.register("m-1")
		o.register("m-2")
		o.want("before", o.renew(t.Context(), "m-1"), renewed)
		release := o.stall()
		waiting := o.renewing(t.Context(), "m-2")
		synctest.Wait()
		p1.srv.Stop()
		release()
		queued := o.renewing(t.Context(), "m-1")
		pass(500 * time.Millisecond)
		o.elect("p2", time.Second)
		o.want("that waited", <-waiting, renewed)
		o.want("that came between", <-queued, renewed)
	})
}

// A leader that steps down answers so at once, and its connections stay open.
func TestLeaderStepsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutpost(t)
		p1 := o.elect("p1", 0)
		o.register("m-1")
		release := o.stall()
		waiting := o.renewing(t.Context(), "m-1")
		synctest.Wait()
		stopped := make(chan struct{})
		go func() { defer close(stopped); o.depose() }()
		synctest.Wait()
		release()
		<-stopped
		pass(time.Second)
		if requests, streams := p1.seen(); len(requests) < 2 || streams != 1 {
			t.Errorf("former leader: got %d messages on %d streams, want a retry on the same stream", len(requests),
				streams)
		}
		o.elect("p2", 0)
		a := <-waiting
		o.want("that waited", a, renewed)
		if a.took > 2*time.Second {
			t.Errorf("got an answer after %v, want it within a pause", a.took)
		}
	})
}

// The peer that is known as the leader may not be established yet.
func TestLeaderIsNotEstablished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutpost(t)
		o.register("m-1")
		waiting := o.renewing(t.Context(), "m-1")
		pass(time.Second)
		o.knows("p9") // an unreachable peer
		pass(time.Second)
		o.lead(0)
		o.serve("p1", o.engine.Load())
		o.knows("p1")
		o.want("that waited", <-waiting, renewed)
	})
}

// Without a leader, the answer is NotApplied after 8 s, or at the caller's deadline.
func TestNoLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutpost(t)
		a := o.renew(t.Context(), "m-1")
		o.wantNotApplied("no leader", a, outcome.ErrNoLeader)
		if a.took != 8*time.Second {
			t.Errorf("got an answer after %v, want 8s", a.took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		a = o.renew(ctx, "m-1")
		o.wantNotApplied("deadline", a, outcome.ErrNoLeader)
		if a.took != time.Second {
			t.Errorf("got an answer after %v, want 1s", a.took)
		}
	})
}

// A hung leader keeps its connections: calls time out after 2 s, are retried, and reach the next
// leader.
func TestLeaderHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutpost(t)
		p1 := o.elect("p1", 0)
		o.register("m-1")
		p1.setDeaf(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		a := o.renew(ctx, "m-1")
		o.wantNotApplied("with a deadline of 1 s", a, context.DeadlineExceeded)
		if a.took != time.Second {
			t.Errorf("got an answer after %v, want 1s", a.took)
		}
		patient := o.renewing(t.Context(), "m-1")
		pass(2500 * time.Millisecond)
		if _, streams := p1.seen(); streams < 2 {
			t.Errorf("got %d streams, want a new one after 2 s", streams)
		}
		o.elect("p2", 0)
		o.want("that waited", <-patient, renewed)
		p1.setDeaf(false)
	})
}

// If a lease expires while its heartbeat is in transit, the answer is EXPIRED.
func TestExpiredInTransit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutpost(t)
		o.elect("p1", 0)
		o.register("m-1")
		o.want("first", o.renew(t.Context(), "m-1"), renewed)
		pass(machineTTL - 3*time.Second)
		o.knows("") // the follower is isolated, and the leader continues
		waiting := o.renewing(t.Context(), "m-1")
		pass(5 * time.Second)
		o.knows("p1")
		o.want("too late", <-waiting, expired)
		o.want("again", o.renew(t.Context(), "m-1"), expired)
		o.register("m-1")
		o.want("registered again", o.renew(t.Context(), "m-1"), renewed)
	})
}

// When a peer shuts down, waiting callers get an error, and no goroutine is left.
func TestShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutpost(t)
		o.elect("p1", 0)
		o.register("m-1")
		release := o.stall()
		ctx, cancel := context.WithCancel(t.Context())
		waiting := o.renewing(ctx, "m-1")
		synctest.Wait()
		o.stopGateway()
		late := o.renew(t.Context(), "m-1")
		o.wantNotApplied("after the end", late, outcome.ErrNoLeader)
		cancel()
		a := <-waiting
		o.wantNotApplied("that waited", a, nil)
		release()
	})
}
