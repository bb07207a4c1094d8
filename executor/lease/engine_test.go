package lease_test

import (
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-metal/holdfast/proto/internalv1"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

const (
	renewed = internalv1.RenewalAnswer_RENEWED
	expired = internalv1.RenewalAnswer_EXPIRED
	unknown = internalv1.RenewalAnswer_UNKNOWN_LEASE
	machine = internalv1.LeaseRef_MACHINE
)

func (l *lab) wantHeartbeat(id string, want internalv1.RenewalAnswer_Outcome) {
	l.t.Helper()
	got, err := l.renew(machine, id)
	if err != nil || got != want {
		l.t.Errorf("heartbeat of %s: got %v, %v, want %v", id, got, err, want)
	}
}

func (l *lab) wantState(id string, want holdfastv1.Agent_State) {
	l.t.Helper()
	synctest.Wait()
	if got := l.agentState(id); got != want {
		l.t.Errorf("agent of %s at %v: got %v, want %v", id, time.Now(), got, want)
	}
}

// A machine is registered, ready after its first heartbeat, lost when heartbeats stop, and ready
// again after it registers again.
func TestLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, 1)
		l.lead(0)
		defer l.depose()
		l.wantHeartbeat("m-1", unknown)
		l.register("m-1")
		l.wantState("m-1", holdfastv1.Agent_REGISTERED)
		l.wantHeartbeat("m-1", renewed)
		l.wantState("m-1", holdfastv1.Agent_READY)
		for range 10 {
			pass(time.Minute)
			l.wantHeartbeat("m-1", renewed)
		}
		pass(machineTTL - time.Second)
		l.wantState("m-1", holdfastv1.Agent_READY)
		pass(3 * time.Second)
		l.wantState("m-1", holdfastv1.Agent_EXPIRED)
		l.wantHeartbeat("m-1", expired)
		l.register("m-1")
		l.wantHeartbeat("m-1", renewed)
		l.wantState("m-1", holdfastv1.Agent_READY)
	})
}

// A released lease is not renewed, however recent its last heartbeat is.
func TestEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, 1)
		l.lead(0)
		defer l.depose()
		l.register("m-1")
		l.wantHeartbeat("m-1", renewed)
		l.wantHeartbeat("m-1", renewed)
		l.must(&internalv1.Command{
			Op: &internalv1.Command_DeleteMachine{DeleteMachine: &internalv1.DeleteMachine{MachineId: "m-1"}}})
		l.wantHeartbeat("m-1", unknown)
	})
}

// A machine that registers but never sends a heartbeat is lost too.
func TestSilentRegistration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, 1)
		l.lead(0)
		defer l.depose()
		pass(time.Hour)
		l.register("m-1")
		pass(machineTTL - time.Second)
		l.wantState("m-1", holdfastv1.Agent_REGISTERED)
		pass(5 * time.Second)
		l.wantState("m-1", holdfastv1.Agent_EXPIRED)
	})
}

// After an hour without leases, a new grant must not seem an hour old to the next leader.
func TestRegistrationAfterAnIdleHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, 1)
		l.lead(0)
		defer l.depose()
		pass(time.Hour)
		l.register("m-1")
		pass(5 * time.Second) // the clock is recorded
		l.lead(0)
		pass(machineTTL - 10*time.Second)
		l.wantState("m-1", holdfastv1.Agent_REGISTERED)
		pass(10*time.Second + slackFor + 5*time.Second)
		l.wantState("m-1", holdfastv1.Agent_EXPIRED)
	})
}

// A machine that sent a heartbeat in this term is lost after its TTL, without the slack of
// inherited leases.
func TestOneHeartbeatAfterFailover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, 1)
		l.lead(0)
		defer l.depose()
		l.register("m-1")
		l.wantHeartbeat("m-1", renewed)
		l.lead(0)
		synctest.Wait()
		l.wantHeartbeat("m-1", renewed)
		pass(machineTTL + time.Second)
		l.wantState("m-1", holdfastv1.Agent_EXPIRED)
	})
}

// A pool must follow the last requested interval, even if an earlier one was longer.
func TestPoolGetsShorterInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, 1)
		l.lead(0)
		defer l.depose()
		pass(2 * time.Minute) // quiet: pools get an interval of 30 s
		l.must(&internalv1.Command{
			Op: &internalv1.Command_RegisterPool{RegisterPool: &internalv1.RegisterPool{Pool: &holdfastv1.Pool{PoolId: "p-1"},
				TtlMs: poolTTL.Milliseconds()}}})
		pass(time.Second)
		l.register("busy")
		l.wantHeartbeat("busy", renewed)
		for range 10 { // busy: 5 s
			for range 1000 {
				l.engine.Load().Take(&internalv1.Renewal{Lease: &internalv1.LeaseRef{Kind: machine, Id: "busy"}},
					func(*internalv1.RenewalAnswer) {})
			}
			pass(time.Second)
		}
		var interval int64
		answered := make(chan struct{})
		l.engine.Load().Take(&internalv1.Renewal{Lease: &internalv1.LeaseRef{Kind: internalv1.LeaseRef_POOL, Id: "p-1"}},
			func(a *internalv1.RenewalAnswer) {
				interval = a.GetIntervalMs()
				close(answered)
			})
		<-answered
		if interval != 5000 {
			t.Fatalf("requested interval: got %d ms, want 5000", interval)
		}
		pass(poolTTL + time.Second)
		if p, _ := l.state.View().Pool("p-1"); p.GetStatus() != holdfastv1.Pool_UNAVAILABLE {
			t.Errorf("pool after three missed heartbeats: got %v", p.GetStatus())
		}
	})
}

// Steps of the wall clock, forwards and backwards, neither expire a lease nor extend one.
func TestWallClockSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, 1)
		l.lead(0)
		defer l.depose()
		l.register("m-1")
		l.wantHeartbeat("m-1", renewed)
		for _, step := range []time.Duration{24 * time.Hour, -48 * time.Hour} {
			l.mu.Lock()
			l.skew += step
			l.mu.Unlock()
			pass(time.Minute)
			l.wantState("m-1", holdfastv1.Agent_READY)
			l.wantHeartbeat("m-1", renewed)
			l.lead(time.Second) // the next leader starts from the recorded clock
			pass(time.Minute)
			l.wantState("m-1", holdfastv1.Agent_READY)
		}
		pass(machineTTL)
		l.wantState("m-1", holdfastv1.Agent_EXPIRED)
	})
}

// If there is no leader for longer than the TTL, no machine that sends heartbeats
// afterwards is lost.
func TestLongOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, 1)
		l.lead(0)
		defer l.depose()
		l.register("m-1")
		l.register("m-2")
		l.wantHeartbeat("m-1", renewed)
		l.wantHeartbeat("m-2", renewed)
		l.lead(2 * time.Hour)
		pass(machineTTL - time.Second)
		l.wantState("m-1", holdfastv1.Agent_READY)
		l.wantHeartbeat("m-1", renewed)
		pass(time.Minute)
		l.wantState("m-1", holdfastv1.Agent_READY)
		l.wantState("m-2", holdfastv1.Agent_EXPIRED)
	})
}

// Leaders change, hang and have wrong clocks. No lease expires within its TTL after an answered
// heartbeat, and a silent machine is lost within its TTL and 60 s
// (docs/decisions/0012-leases-have-a-clock-of-their-own.md).
func TestNeverEarlyNeverMissed(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		gaps := rapid.SliceOfN(rapid.OneOf(rapid.IntRange(1, 29), rapid.IntRange(30, 290), rapid.IntRange(291, 298)), 1,
			6).Draw(rt, "seconds between heartbeats")
		silentFor := machineTTL + time.Minute
		var story []step
		for i := range rapid.IntRange(0, 3).Draw(rt, "failovers") {
			var pause time.Duration
			if i == 0 { // a pause counts as one second, and a second pause between two heartbeats could exceed the TTL
				pause = time.Duration(rapid.SampledFrom([]int{0, 0, 1, 2, 30, 299, 301, 3600, 86_400}).Draw(rt,
					"pause")) * time.Second
			}
			story = append(story, step{
				pause:      pause,
				heartbeats: rapid.IntRange(0, 3).Draw(rt, "heartbeats before"),
				after:      time.Duration(rapid.IntRange(0, 30).Draw(rt, "after")) * time.Second,
				outage:     time.Duration(rapid.IntRange(0, 2500).Draw(rt, "outage")) * time.Millisecond,
				skew:       time.Duration(rapid.IntRange(-100, 100).Draw(rt, "skew")) * time.Minute,
			})
		}
		synctest.Test(t, func(t *testing.T) {
			l := newLab(t, seed)
			l.lead(0)
			defer l.depose()
			l.register("alive")
			l.register("silent")
			l.wantHeartbeat("silent", renewed)
			silence := time.Now()
			end := make(chan struct{})
			ended := make(chan struct{})
			answers := make(chan struct{}, 1000)
			var answered time.Time
			go func() {
				defer close(ended)
				for i := 0; ; i++ {
					sent := time.Now()
					if got, err := l.renew(machine, "alive"); err != nil || got != renewed {
						t.Errorf("live machine, last answer %v ago: got %v, %v", sent.Sub(answered), got, err)
						return
					}
					answered = sent
					answers <- struct{}{}
					select {
					case <-end:
						return
					case <-time.After(time.Duration(gaps[i%len(gaps)]) * time.Second):
					}
				}
			}()
			for _, s := range story {
				for range s.heartbeats {
					select {
					case <-answers:
					case <-ended:
					}
				}
				pass(s.after)
				l.setSkew(s.skew)
				l.engine.Load().Pause(s.pause)
				pass(time.Second) // it continues for a while before it is deposed
				l.lead(s.outage)
			}
			if wait := silentFor - time.Since(silence); wait > 0 {
				pass(wait)
			}
			l.wantState("silent", holdfastv1.Agent_EXPIRED)
			close(end)
			<-ended
			if e, ok := l.state.View().Lease(machine, "silent"); !ok || e.GetExpiredAt() == nil {
				t.Error("lease of the silent machine: got it valid, want it expired")
			}
		})
	})
}

// step is one failover with some heartbeats, some time after the previous step. The leader's
// process is paused, its clock is stepped, and it is deposed.
type step struct {
	heartbeats                 int
	pause, after, outage, skew time.Duration
}

// The next leader honors heartbeats that the last one answered from memory.
func TestAnsweredFromMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, 1)
		l.lead(0)
		defer l.depose()
		l.register("m-1")
		l.wantHeartbeat("m-1", renewed)
		pass(14 * time.Second)
		l.wantHeartbeat("m-1", renewed)
		if e, _ := l.state.View().Lease(machine, "m-1"); e.GetSeenMs() > 5000 {
			t.Errorf("recorded heartbeat: got %d ms, want it only in memory", e.GetSeenMs())
		}
		l.lead(time.Second)
		pass(machineTTL - 2*time.Second)
		l.wantHeartbeat("m-1", renewed)
	})
}

// A heartbeat long after the committed one is not answered from memory, because the next leader
// would not know of it.
func TestLateHeartbeatIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, 1)
		l.lead(0)
		defer l.depose()
		l.register("m-1")
		l.wantHeartbeat("m-1", renewed)
		pass(machineTTL - 2*time.Second)
		l.wantHeartbeat("m-1", renewed)
		l.lead(time.Second)
		pass(machineTTL - 2*time.Second)
		l.wantHeartbeat("m-1", renewed)
	})
}

// A service that sends a heartbeat while the commit of its loss is in flight is registered after
// the answer.
func TestHeartbeatDuringLoss(t *testing.T) {
	const id, ttl = "550e8400-e29b-41d4-a716-446655440000", 6 * time.Second
	lost := 0
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			l := newLab(t, seed)
			l.lead(0)
			defer l.depose()
			l.must(&internalv1.Command{
				Op: &internalv1.Command_RegisterService{RegisterService: &internalv1.RegisterService{NewId: id,
					TtlMs:  ttl.Milliseconds(),
					Target: &holdfastv1.ServiceTarget{ServiceName: "s", Host: "h", Port: 1, ServiceType: "tool-invoker"}}}})
			if got, err := l.renew(internalv1.LeaseRef_SERVICE, id); err != nil || got != renewed {
				t.Fatalf("got %v, %v", got, err)
			}
			pass(ttl - 100*time.Millisecond)
			goOn := l.stall()
			pass(time.Second) // the commit of the loss waits
			answer := make(chan internalv1.RenewalAnswer_Outcome, 1)
			l.engine.Load().Take(&internalv1.Renewal{Lease: &internalv1.LeaseRef{Kind: internalv1.LeaseRef_SERVICE, Id: id}},
				func(a *internalv1.RenewalAnswer) { answer <- a.GetOutcome() })
			pass(time.Second)
			before := l.state.View().LastServiceEvent()
			goOn()
			got := <-answer
			if s, ok := l.state.View().Service(id); !ok || !s.GetActive() || got != renewed {
				t.Errorf("seed %d: got %v and service %v, want it renewed and active", seed, got, s)
			}
			if l.state.View().LastServiceEvent() > before { // the loss was committed first
				lost++
			}
			pass(time.Second)
			if s, _ := l.state.View().Service(id); !s.GetActive() {
				t.Errorf("seed %d: got a loss after the answer", seed)
			}
		})
	}
	if lost == 0 {
		t.Error("got no loss before an answer: nothing was tested")
	}
}
