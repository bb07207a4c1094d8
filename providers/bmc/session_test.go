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

// TestNoSessionIsLeft makes 1,000 parallel operations with lost answers, canceled callers, logins
// without an answer, expiring sessions and a BMC that resets. There is one session at a time, and
// none at the end.
func TestNoSessionIsLeft(t *testing.T) {
	t.Parallel()
	l := newLab(t, redfishtest.Config{ResetTime: 20 * time.Millisecond}, func(c *bmc.Config) {
		c.Protocol, c.OpenTime, c.RequestTime = bmc.Redfish, 20*time.Millisecond, 5*time.Second
	})
	l.s.Set(func(q *redfishtest.Quirks) { q.SessionLimit = 8 })
	most := 0
	// Canceled callers look like silence: at times, the BMC is backed off from, and serves nothing.
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
				if i%5 == 0 { // canceled caller
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
			_ = l.p.Release(l.ctx) // as at a handover; it may fail, and Close tries again
		}
	}
	l.s.Set(func(q *redfishtest.Quirks) { *q = redfishtest.Quirks{} })
	l.ok("close", l.p.Close(l.ctx))
	if n := l.s.Sessions(); n != 0 {
		t.Errorf("got %d remaining sessions on the BMC, want 0", n)
	}
	if reads, writes := l.s.Most(); reads > 2+1 || writes > 1+1 { // an abandoned request may still be served
		t.Logf("at once: %d reads, %d writes", reads, writes)
	}
	t.Logf("served %d requests, %d logins, at most %d sessions after a batch", l.s.Served(), l.s.Logins(), most)
	if l.s.Served() < 500 {
		t.Errorf("got %d requests, too few to prove anything", l.s.Served())
	}
}

// A service that ends each session with its next request: parallel requests end each other's
// sessions, and all get their answers.
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
		t.Errorf("got %d remaining sessions on the BMC, want 0", n)
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
		t.Errorf("got %d reads and %d writes at once, want 2 and 1", reads, writes)
	}
	if n := l.s.Logins(); n != 1 {
		t.Errorf("got %d logins, want 1", n)
	}
}

// A panic during an operation ends the session, because the process ends with it.
func TestPanicEndsSession(t *testing.T) {
	l := newLab(t, redfishtest.Config{}, redfishOnly)
	l.power(providers.PowerOn)
	func() {
		defer func() {
			if r := recover(); r == nil {
				t.Error("got no panic")
			}
		}()
		ctx := providers.WithNotAfter(&panicking{Context: l.ctx}, time.Now().Add(time.Minute))
		_ = l.p.SetPower(ctx, op("power"), l.m, providers.ActionHardOff)
	}()
	if n := l.s.Sessions(); n != 0 {
		t.Errorf("got %d remaining sessions, want 0", n)
	}
	if _, err := l.p.PowerState(l.ctx, l.m); err != nil {
		t.Errorf("next operation: %v", err)
	}
}

// panicking is a context that panics once, at the read of a missing value, like one that
// http.Client makes right before it sends.
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

// A leader that dies leaves a session, which the next one ends.
func TestNextLeaderEndsFormerSession(t *testing.T) {
	l := newLab(t, redfishtest.Config{}, redfishOnly)
	l.power(providers.PowerOn)
	next := l.provider(redfishOnly)
	if _, err := next.PowerState(l.ctx, l.m); err != nil {
		t.Fatal(err)
	}
	if n := l.s.Sessions(); n != 1 {
		t.Errorf("got %d sessions, want only that of the new leader", n)
	}
	l.ok("close", next.Close(l.ctx))
	if n := l.s.Sessions(); n != 0 {
		t.Errorf("got %d remaining sessions, want 0", n)
	}
}

// A peer that leads again starts from the notes of the leader in between, not from its own memory.
func TestReelectedLeaderReadsNotes(t *testing.T) {
	l := newLab(t, redfishtest.Config{}, redfishOnly)
	l.power(providers.PowerOn)
	l.ok("release", l.p.Release(l.ctx)) // its term ends
	if n := l.p.Kept(); n != 0 {
		t.Errorf("got %d remembered BMCs after the term, want 0", n)
	}
	between := l.provider(redfishOnly)
	if _, err := between.PowerState(l.ctx, l.m); err != nil {
		t.Fatal(err)
	}
	l.ok("reset the BMC", between.ResetBMC(l.ctx, op("recover"), l.m)) // and now the leader is killed
	l.power(providers.PowerOn)
	l.class("a second reset within the hour", l.p.ResetBMC(l.ctx, op("recover"), l.m), providers.Transient)
	if got := l.effects("bmc_reset"); len(got) != 1 {
		t.Errorf("got %d resets of the BMC, want 1", len(got))
	}

	l.ok("release", l.p.Release(l.ctx))
	again := l.provider(redfishOnly)
	if _, err := again.PowerState(l.ctx, l.m); err != nil { // also killed with a session
		t.Fatal(err)
	}
	l.power(providers.PowerOn)
	if n := l.s.Sessions(); n != 1 {
		t.Errorf("got %d sessions, want only ours, not that of the leader in between", n)
	}
}

func TestFullBMCEndsOurSessions(t *testing.T) {
	l := newLab(t, redfishtest.Config{}, redfishOnly)
	l.s.Set(func(q *redfishtest.Quirks) { q.SessionLimit = 8 })
	for range 5 {
		l.s.OpenSession("admin") // of former leaders
	}
	for range 3 {
		l.s.OpenSession("other")
	}
	l.power(providers.PowerOn)
	if n := l.s.Sessions(); n != 4 {
		t.Errorf("got %d sessions, want ours and three of another client", n)
	}
}

// A refusal because of too many sessions does not concern the account, with any HTTP status.
func TestSessionLimitIsNotRefusedLogin(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden,
		http.StatusServiceUnavailable} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			t.Parallel()
			l := newLab(t, redfishtest.Config{}, redfishOnly)
			l.s.Set(func(q *redfishtest.Quirks) { q.SessionLimit, q.LimitStatus = 1, status })
			l.s.OpenSession("other")
			for range 4 { // more often than a login may be refused
				_, err := l.p.PowerState(l.ctx, l.m)
				l.class("read power", err, providers.Transient)
			}
			l.s.CloseSessions("other")
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
	l.power(providers.PowerOn) // logs in again
	cancel()
	l.ok("run", <-done)
	if n := l.s.Sessions(); n != 0 {
		t.Errorf("got %d remaining sessions after Run, want 0", n)
	}
}

func TestAtMostTwoRefusedLogins(t *testing.T) {
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
					t.Errorf("error: got %v with the password", err)
				}
			})
		}
		wg.Wait()
		next := l.provider(redfishOnly) // another leader continues counting
		_, err := next.PowerState(l.ctx, l.m)
		l.class("the next leader", err, providers.Auth)
		if n := l.s.Logins(); n != 2 {
			t.Errorf("basic %v: got %d logins, want 2", basic, n)
		}
		l.acct.set(bmc.Account{User: "admin", Password: "secret", Version: "2"})
		if _, err := next.PowerState(l.ctx, l.m); err != nil {
			t.Errorf("basic %v: login with the new secret: %v", basic, err)
		}
	}
}

// TestPasswordToChange checks that a BMC that requires a new password is reported, and that the
// account does not count as refused.
func TestPasswordToChange(t *testing.T) {
	l := newLab(t, redfishtest.Config{}, redfishOnly)
	l.s.Set(func(q *redfishtest.Quirks) { q.NewPassword = true })
	for range 3 {
		_, err := l.p.PowerState(l.ctx, l.m)
		l.class("before it is changed", err, providers.Auth)
		if !strings.Contains(err.Error(), "has to be changed") {
			t.Errorf("got %v, want a remedy", err)
		}
	}
	l.s.Set(func(q *redfishtest.Quirks) { q.NewPassword = false })
	l.power(providers.PowerOn)
}

// RetryBmc allows logins at once. It counts once, also for the next leader.
func TestRetryOfRefusedLogin(t *testing.T) {
	l := newLab(t, redfishtest.Config{}, redfishOnly)
	l.acct.set(bmc.Account{User: "admin", Password: "wrong", Version: "1"})
	refused := func(p *bmc.Provider, tries, want int) {
		t.Helper()
		for range tries {
			_, err := p.PowerState(l.ctx, l.m)
			l.class("a wrong password", err, providers.Auth)
		}
		if n := l.s.Logins(); n != want {
			t.Errorf("got %d logins, want %d", n, want)
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
		t.Errorf("after another retry: got %v, want a login", err)
	}
}

func TestFactsOfRefusedLogin(t *testing.T) {
	l := newLab(t, redfishtest.Config{}, redfishOnly)
	l.acct.set(bmc.Account{User: "admin", Password: "wrong"})
	f, err := l.p.Inspect(l.ctx, l.m)
	l.ok("inspect", err)
	if f.BMCReachable || f.BMCReason != "AuthFailed" {
		t.Errorf("got facts %+v, want AuthFailed", f)
	}
}
