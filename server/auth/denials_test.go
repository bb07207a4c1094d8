package auth

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// startDenials runs the Denials of a gate inside a synctest bubble.
func startDenials(t *testing.T, f *fakeRecords) (d *Denials, stop func()) {
	t.Helper()
	d = newGate(t, f, Config{}).Denials()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- d.Run(ctx) }()
	return d, func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func noRole() *Error { return denied(ReasonRole, "no") }

func caller(principal string) *Caller {
	return &Caller{Identity: &holdfastv1.Identity{Principal: principal, TokenId: "t1"}, Source: "10.0.0.1", Peer: "n2",
		Method: "holdfast.v1.RunService/StartRun"}
}

// TestDenialIsRecorded checks that a refused change is in the audit trail before its caller gets
// the answer.
func TestDenialIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeRecords{}
		d, stop := startDenials(t, f)
		defer stop()
		d.refused(t.Context(), caller("token:x"), "machines/m-1", "r-1", noRole())
		got := f.events()
		if len(got) != 1 {
			t.Fatalf("got %v", got)
		}
		e := got[0]
		if e.GetPrincipal() != "token:x" || e.GetResource() != "machines/m-1" || e.GetRequestId() != "r-1" ||
			e.GetOutcome() != "PERMISSION_DENIED" || e.GetReason() != ReasonRole ||
			e.GetPeer() != "n2" || e.GetSource() != "10.0.0.1" || e.GetTokenId() != "t1" || e.GetCount() != 1 ||
			e.GetAt() == nil {
			t.Errorf("got %v", e)
		}
	})
}

// TestFailedAuthentications checks that they are counted by source and method, once per second.
func TestFailedAuthentications(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeRecords{}
		d, stop := startDenials(t, f)
		defer stop()
		for range 1000 {
			d.failed(&presented{source: "10.0.0.9", method: "a"}, "n1", unauthenticated(ReasonTokenUnknown, "no"))
			d.failed(&presented{source: "10.0.0.8", method: "a"}, "n1", unauthenticated(ReasonTokenUnknown, "no"))
		}
		time.Sleep(2 * failedPause) // sleep: fake clock
		got := f.events()
		if len(got) != 2 || got[0].GetCount() != 1000 || got[0].GetSource() != "10.0.0.9" ||
			got[0].GetOutcome() != "UNAUTHENTICATED" || f.reportCalls != 1 {
			t.Errorf("got %v in %d reports", got, f.reportCalls)
		}
	})
}

// TestFloodOfFailures checks that a flood of failed authentications from many addresses displaces
// no other audit events, and uses bounded memory.
func TestFloodOfFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeRecords{}
		d, stop := startDenials(t, f)
		const each, seconds = 600, 180
		for range seconds {
			for i := range each {
				d.failed(&presented{source: fmt.Sprint("10.0.", i), method: fmt.Sprint("m", i%60)}, "n1",
					unauthenticated(ReasonNoCredentials, "no"))
			}
			d.mu.Lock()
			n := len(d.kept.order) + len(d.merged.order)
			d.mu.Unlock()
			if n > 2*maxDenials {
				t.Fatalf("got %d kept counts", n)
			}
			time.Sleep(time.Second) // sleep: fake clock
		}
		stop()
		var calls uint64
		for _, e := range f.events() {
			calls += uint64(e.GetCount())
		}
		// The burst, one in ten seconds, and one per method and minute.
		if n := len(f.events()); n > eventBurst+seconds/10+(seconds/60+1)*61 {
			t.Errorf("got %d events", n)
		}
		if calls != each*seconds {
			t.Errorf("got %d counted calls, want %d", calls, each*seconds)
		}
	})
}

// TestNoLeader checks that refusals are kept while they cannot be reported, and that
// callers do not wait forever.
func TestNoLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeRecords{reportErr: errors.New("no leader is known")}
		d, stop := startDenials(t, f)
		defer stop()
		begin := time.Now()
		d.refused(t.Context(), caller("token:x"), "machines/m-1", "", noRole())
		if took := time.Since(begin); took > waitRecorded {
			t.Errorf("got a wait of %s", took)
		}
		time.Sleep(time.Minute) // sleep: fake clock
		f.mu.Lock()
		f.reportErr = nil
		f.mu.Unlock()
		time.Sleep(2 * time.Second) // sleep: fake clock
		if got := f.events(); len(got) != 1 || got[0].GetCount() != 1 {
			t.Errorf("got %v", got)
		}
	})
}

// TestStopReports checks that buffered refusals are reported when the peer stops.
func TestStopReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeRecords{}
		d, stop := startDenials(t, f)
		d.failed(&presented{source: "10.0.0.9", method: "a"}, "n1", unauthenticated(ReasonNoCredentials, "no"))
		stop()
		if len(f.events()) != 1 {
			t.Errorf("got %v", f.events())
		}
	})
}

func TestOutcome(t *testing.T) {
	for code, want := range map[codes.Code]string{
		codes.Unauthenticated: "UNAUTHENTICATED", codes.PermissionDenied: "PERMISSION_DENIED",
		codes.ResourceExhausted: "RESOURCE_EXHAUSTED",
	} {
		if got := outcomeName(code); got != want {
			t.Errorf("%v: got %s", code, got)
		}
	}
}

func TestLimits(t *testing.T) {
	synctest.Test(t, testLimits) // its clock stands still, so that no call is allowed meanwhile
}

func testLimits(t *testing.T) {
	id := func(principal string, role holdfastv1.Role_Value) *holdfastv1.Identity {
		return &holdfastv1.Identity{Principal: principal, Role: role, Method: MethodToken}
	}
	taken := func(l *limits, id *holdfastv1.Identity) int {
		n := 0
		for n < 30000 && l.allow(id) == nil {
			n++
		}
		return n
	}
	l := newLimits(100)
	for _, tt := range []struct {
		id   *holdfastv1.Identity
		want int // the burst
	}{
		{id("token:a", holdfastv1.Role_OPERATOR), 200},
		{id("token:b", holdfastv1.Role_ADMIN), 200}, // another token has its own limit
		{id("agent:m-1", holdfastv1.Role_AGENT), 10},
		{id("service:x", holdfastv1.Role_SERVICE), 40},
		{id("pool:gpu", holdfastv1.Role_POOL_AGENT), 2000},
	} {
		if got := taken(l, tt.id); got != tt.want {
			t.Errorf("%s: got %d calls at once, want %d", tt.id.GetPrincipal(), got, tt.want)
		}
	}
	// A tenant with many tokens leaves the peer to others, also to those of other pools.
	n := 0
	for i := range 20 {
		of := id(fmt.Sprint("token:t-", i), holdfastv1.Role_OPERATOR)
		of.Pools = []string{"a"}
		n += taken(l, of)
	}
	if n != 800 {
		t.Errorf("20 tokens of a pool: got %d calls at once, want 800", n)
	}
	other := id("token:o", holdfastv1.Role_OPERATOR)
	other.Pools = []string{"b"}
	if got := taken(l, other); got != 200 {
		t.Errorf("a token of another pool: got %d calls at once, want 200", got)
	}
	e := l.allow(id("token:a", holdfastv1.Role_OPERATOR))
	if e == nil || e.Code != codes.ResourceExhausted || e.Retry <= 0 {
		t.Errorf("got %v", e)
	}
	for _, free := range []*holdfastv1.Identity{anonymous(), {Principal: "peer:n2", Method: MethodCertificate}} {
		if got := taken(l, free); got != 30000 {
			t.Errorf("%s: got a limit of %d", free.GetPrincipal(), got)
		}
	}
	if got := taken(newLimits(-1), id("token:a", holdfastv1.Role_OPERATOR)); got != 30000 {
		t.Errorf("without a limit: got %d", got)
	}
}
