package bmc_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc"
	"github.com/holdfast-metal/holdfast/providers/bmc/redfishtest"
)

// 1,000 operations, in parallel, with answers that are lost, callers that go away, logins whose
// answer nobody hears, sessions that expire and a BMC that resets: one session at a time, and none
// at the end.
func TestNoSessionIsLeft(t *testing.T) {
	t.Parallel()
	l := newLab(t, redfishtest.Config{ResetTime: 20 * time.Millisecond}, func(c *bmc.Config) {
		c.Protocol, c.OpenTime, c.RequestTime = bmc.Redfish, 20*time.Millisecond, 5*time.Second
	})
	l.s.Set(func(q *redfishtest.Quirks) { q.SessionLimit = 8 })
	most := 0
	// Callers that go away look like silence: the BMC is left alone for moments, in which nothing
	// is served.
	for batch, end := 0, time.Now().Add(3*time.Minute); batch < 20 || l.s.Served() < 1000 &&
		time.Now().Before(end); batch++ {
		l.s.Set(func(q *redfishtest.Quirks) {
			q.Drop, q.DropLogins, q.ExpireSession, q.Latency = 0, 0, false, 0
			switch batch % 5 {
			case 1:
				q.Drop = 7
			case 2:
				q.DropLogins, q.ExpireSession = 2, true
			case 3:
				q.Latency = 2 * time.Millisecond
			}
		})
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				ctx, cancel := l.ctx, context.CancelFunc(func() {})
				if i%5 == 0 { // the caller goes away
					ctx, cancel = context.WithTimeout(ctx, time.Duration(rand.IntN(5000))*time.Microsecond)
				}
				defer cancel()
				switch i % 3 {
				case 0:
					_, _ = l.p.PowerState(ctx, l.m)
				case 1:
					_ = l.p.SetPower(ctx, op("power"), l.m, providers.ActionOn)
				default:
					_, _ = l.p.BootDevice(ctx, l.m)
				}
			})
		}
		wg.Wait()
		most = max(most, l.s.Sessions())
		if batch%4 == 3 {
			_ = l.p.Release(l.ctx) // as at a hand-over; it may fail, and Close tries again
		}
	}
	l.s.Set(func(q *redfishtest.Quirks) { *q = redfishtest.Quirks{} })
	l.ok("close", l.p.Close(l.ctx))
	if n := l.s.Sessions(); n != 0 {
		t.Errorf("%d sessions are left on the BMC, want none", n)
	}
	if reads, writes := l.s.Most(); reads > 2+1 || writes > 1+1 { // one that was abandoned may still be served
		t.Logf("at once: %d reads, %d writes", reads, writes)
	}
	t.Logf("served %d requests, %d logins, at most %d sessions after a batch", l.s.Served(), l.s.Logins(), most)
	if l.s.Served() < 500 {
		t.Errorf("served %d requests: too few to prove anything", l.s.Served())
	}
}

// A service that ends each session with its next request: requests next to each other use up each
// other's sessions, and all get their answers.
func TestSessionsThatEndEarly(t *testing.T) {
	t.Parallel()
	l := newLab(t, redfishtest.Config{}, redfishOnly)
	l.s.Set(func(q *redfishtest.Quirks) { q.ExpireSession = true })
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 5 {
				if _, err := l.p.PowerState(l.ctx, l.m); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	l.ok("close", l.p.Close(l.ctx))
	if n := l.s.Sessions(); n != 0 {
		t.Errorf("%d sessions are left on the BMC, want none", n)
	}
}

func TestAtMostOneWriterAndTwoReaders(t *testing.T) {
	t.Parallel()
	l := newLab(t, redfishtest.Config{}, redfishOnly)
	l.s.Set(func(q *redfishtest.Quirks) { q.Latency = 3 * time.Millisecond })
	var wg sync.WaitGroup
	for i := range 30 {
		wg.Go(func() {
			if i%2 == 0 {
				if _, err := l.p.PowerState(l.ctx, l.m); err != nil {
					t.Error(err)
				}
			} else if err := l.p.SetPower(l.ctx, op("power"), l.m, providers.ActionOn); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if reads, writes := l.s.Most(); reads != 2 || writes != 1 {
		t.Errorf("at once: %d reads and %d writes, want 2 and 1", reads, writes)
	}
	if n := l.s.Logins(); n != 1 {
		t.Errorf("%d logins, want one for all", n)
	}
}

// A panic in the middle ends the session: the process ends with it.
func TestAPanicEndsTheSession(t *testing.T) {
	l := newLab(t, redfishtest.Config{}, redfishOnly)
	l.power(providers.PowerOn)
	func() {
		defer func() {
			if r := recover(); r == nil {
				t.Error("the panic was swallowed")
			}
		}()
		ctx := providers.WithNotAfter(&panicking{Context: l.ctx}, time.Now().Add(time.Minute))
		_ = l.p.SetPower(ctx, op("power"), l.m, providers.ActionHardOff)
	}()
	if n := l.s.Sessions(); n != 0 {
		t.Errorf("%d sessions are left, want none", n)
	}
	if _, err := l.p.PowerState(l.ctx, l.m); err != nil {
		t.Errorf("the next operation: %v", err)
	}
}

// panicking is a context that panics once, when somebody reads a value that is not there, as
// http.Client does right before it sends.
type panicking struct {
	context.Context
	once atomic.Bool
}

func (p *panicking) Value(key any) any {
	if strings.Contains(fmt.Sprintf("%T", key), "httptrace") && !p.once.Swap(true) {
		panic("on purpose")
	}
	return p.Context.Value(key)
}

// A leader that dies leaves a session; the next one ends it.
func TestTheNextLeaderEndsTheSessionOfTheLast(t *testing.T) {
	l := newLab(t, redfishtest.Config{}, redfishOnly)
	l.power(providers.PowerOn)
	next := l.provider(redfishOnly)
	if _, err := next.PowerState(l.ctx, l.m); err != nil {
		t.Fatal(err)
	}
	if n := l.s.Sessions(); n != 1 {
		t.Errorf("%d sessions, want that of the new leader alone", n)
	}
	l.ok("close", next.Close(l.ctx))
	if n := l.s.Sessions(); n != 0 {
		t.Errorf("%d sessions are left, want none", n)
	}
}

// A peer that leads again goes on from what the leader in between has left, not from what it knew
// itself.
func TestALeaderAgainKnowsWhatHappenedInBetween(t *testing.T) {
	l := newLab(t, redfishtest.Config{}, redfishOnly)
	l.power(providers.PowerOn)
	l.ok("release", l.p.Release(l.ctx)) // its term ends
	if n := l.p.Kept(); n != 0 {
		t.Errorf("%d BMCs are kept after the term, want none", n)
	}
	between := l.provider(redfishOnly)
	if _, err := between.PowerState(l.ctx, l.m); err != nil {
		t.Fatal(err)
	}
	l.ok("reset the BMC", between.ResetBMC(l.ctx, op("recover"), l.m)) // and now it is killed
	l.power(providers.PowerOn)
	l.class("a second reset within the hour", l.p.ResetBMC(l.ctx, op("recover"), l.m), providers.Transient)
	if got := l.effects("bmc_reset"); len(got) != 1 {
		t.Errorf("%d resets of the BMC, want 1", len(got))
	}

	l.ok("release", l.p.Release(l.ctx))
	again := l.provider(redfishOnly)
	if _, err := again.PowerState(l.ctx, l.m); err != nil { // killed, too: with a session
		t.Fatal(err)
	}
	l.power(providers.PowerOn)
	if n := l.s.Sessions(); n != 1 {
		t.Errorf("%d sessions, want ours alone: that of the leader in between is left", n)
	}
}

func TestRoomIsMadeAmongOurOwnSessions(t *testing.T) {
	l := newLab(t, redfishtest.Config{}, redfishOnly)
	l.s.Set(func(q *redfishtest.Quirks) { q.SessionLimit = 8 })
	for range 5 {
		l.s.OpenSession("admin") // of leaders long gone
	}
	for range 3 {
		l.s.OpenSession("somebody")
	}
	l.power(providers.PowerOn)
	if n := l.s.Sessions(); n != 4 {
		t.Errorf("%d sessions, want ours and the three of somebody else", n)
	}
}

// That there are too many sessions is no word on the account, whatever status it comes with.
func TestASessionLimitIsNoRefusedLogin(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden,
		http.StatusServiceUnavailable} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			t.Parallel()
			l := newLab(t, redfishtest.Config{}, redfishOnly)
			l.s.Set(func(q *redfishtest.Quirks) { q.SessionLimit, q.LimitStatus = 1, status })
			l.s.OpenSession("somebody")
			for range 4 { // more often than a login may be refused
				_, err := l.p.PowerState(l.ctx, l.m)
				l.class("read power", err, providers.Transient)
			}
			l.s.CloseSessions("somebody")
			l.power(providers.PowerOn)
		})
	}
}

func TestIdleSessionsAreEnded(t *testing.T) {
	l := newLab(t, redfishtest.Config{}, func(c *bmc.Config) { c.Protocol, c.Idle = bmc.Redfish, 50*time.Millisecond })
	ctx, cancel := context.WithCancel(l.ctx)
	done := make(chan error, 1)
	go func() { done <- l.p.Run(ctx) }()
	l.power(providers.PowerOn)
	l.eventually("no session", func() bool { return l.s.Sessions() == 0 })
	l.power(providers.PowerOn) // and it logs in again
	cancel()
	l.ok("run", <-done)
	if n := l.s.Sessions(); n != 0 {
		t.Errorf("%d sessions are left after Run, want none", n)
	}
}

func TestTwoRefusedLoginsAreEnough(t *testing.T) {
	for _, basic := range []bool{false, true} {
		l := newLab(t, redfishtest.Config{}, redfishOnly)
		l.s.Set(func(q *redfishtest.Quirks) { q.LockAfter, q.NoSessions = 3, basic })
		l.acct.set(bmc.Account{User: "admin", Password: "wrong", Version: "1"})
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				_, err := l.p.PowerState(l.ctx, l.m)
				if providers.ClassOf(err) != providers.Auth {
					t.Errorf("basic %v: got %v, want class auth", basic, err)
				}
				if strings.Contains(fmt.Sprint(err), "wrong") {
					t.Errorf("error %v shows the password", err)
				}
			})
		}
		wg.Wait()
		next := l.provider(redfishOnly) // another leader goes on counting
		_, err := next.PowerState(l.ctx, l.m)
		l.class("the next leader", err, providers.Auth)
		if n := l.s.Logins(); n != 2 {
			t.Errorf("basic %v: %d logins were tried, want 2", basic, n)
		}
		l.acct.set(bmc.Account{User: "admin", Password: "secret", Version: "2"})
		if _, err := next.PowerState(l.ctx, l.m); err != nil {
			t.Errorf("basic %v: with the new secret: %v", basic, err)
		}
	}
}

// TestPasswordToChange: a BMC that wants a new password first says so, and the account does not
// count as refused.
func TestPasswordToChange(t *testing.T) {
	l := newLab(t, redfishtest.Config{}, redfishOnly)
	l.s.Set(func(q *redfishtest.Quirks) { q.NewPassword = true })
	for range 3 {
		_, err := l.p.PowerState(l.ctx, l.m)
		l.class("before it is changed", err, providers.Auth)
		if !strings.Contains(err.Error(), "has to be changed") {
			t.Errorf("got %v, want what to do", err)
		}
	}
	l.s.Set(func(q *redfishtest.Quirks) { q.NewPassword = false })
	l.power(providers.PowerOn)
}

// RetryBmc allows logins at once. It counts once, also for the next leader.
func TestRetryOfARefusedLogin(t *testing.T) {
	l := newLab(t, redfishtest.Config{}, redfishOnly)
	l.acct.set(bmc.Account{User: "admin", Password: "wrong", Version: "1"})
	refused := func(p *bmc.Provider, tries, want int) {
		t.Helper()
		for range tries {
			_, err := p.PowerState(l.ctx, l.m)
			l.class("a wrong password", err, providers.Auth)
		}
		if n := l.s.Logins(); n != want {
			t.Errorf("%d logins were tried, want %d", n, want)
		}
	}
	refused(l.p, 3, 2)
	l.m.Status = &holdfastv1.MachineStatus{BmcRetryAt: timestamppb.Now()}
	refused(l.p, 3, 4)
	next := l.provider(redfishOnly)
	refused(next, 3, 4)
	l.m.Status.BmcRetryAt = timestamppb.Now()
	l.acct.set(bmc.Account{User: "admin", Password: "secret", Version: "1"})
	if _, err := next.PowerState(l.ctx, l.m); err != nil {
		t.Errorf("after another retry: %v, want a login", err)
	}
}

func TestFactsOfARefusedLogin(t *testing.T) {
	l := newLab(t, redfishtest.Config{}, redfishOnly)
	l.acct.set(bmc.Account{User: "admin", Password: "wrong"})
	f, err := l.p.Inspect(l.ctx, l.m)
	l.ok("inspect", err)
	if f.BMCReachable || f.BMCReason != "AuthFailed" {
		t.Errorf("facts = %+v, want AuthFailed", f)
	}
}
