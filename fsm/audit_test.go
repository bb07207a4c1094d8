package fsm_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// newestEvent returns the last audit event.
func newestEvent(t testing.TB, p *fsmtest.Peer) *holdfastv1.AuditEvent {
	t.Helper()
	for e := range p.View().AuditEvents(0) {
		return e
	}
	t.Fatal("there is no audit event")
	return nil
}

func TestAuditEvent(t *testing.T) {
	long := strings.Repeat("x", 128)
	for _, tt := range []struct {
		op                        proto.Message
		resource, outcome, reason string
	}{
		{&internalv1.SetMachinePhase{MachineId: "m-1", Phase: maintenance}, "machines/m-1", "OK", ""},
		{&internalv1.SetMachinePhase{MachineId: "m-2", Phase: maintenance}, "machines/m-2", "NOT_FOUND", "MACHINE_NOT_FOUND"},
		{&internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: "a b"}}, "machines/?", "INVALID_ARGUMENT",
			"INVALID_FIELD"},
		{startOp("m-1", "r-2", "REBOOT", ""), "machines/m-1/runs/run-r-2", "OK", ""},
		// A replay is a call.
		{startOp("m-1", "r-1", "REBOOT", ""), "machines/m-1/runs/run-r-1", "OK", ""},
		{startOp("m-1", "r-1", "RMA", ""), "machines/m-1", "ALREADY_EXISTS", fsm.ReasonRequestConflict},
		{&internalv1.CancelRun{RunId: "run-r-1"}, "machines/m-1/runs/run-r-1", "FAILED_PRECONDITION", fsm.ReasonRunFinished},
		{&internalv1.CancelRun{RunId: "run-none"}, "runs/run-none", "NOT_FOUND", "RUN_NOT_FOUND"},
		{&internalv1.CreatePlan{Plan: planOf("plan/x", "ssh")}, "plans/plan/x", "OK", ""},
		{createToken("t-1", holdfastv1.Role_VIEWER), "tokens/t-1", "OK", ""},
		{putSecret("bmc/r1", 1), "secrets/bmc/r1", "OK", ""},
		{&internalv1.CreatePool{Pool: &holdfastv1.Pool{PoolId: long}}, "pools/" + long, "OK", ""}, // the longest ids
		{putSecret("bmc/"+long[4:], 1), "secrets/bmc/" + long[4:], "OK", ""},
		{&internalv1.CreatePlan{Plan: planOf("plan/"+long[5:], "ssh")}, "plans/plan/" + long[5:], "OK", ""},
		{&internalv1.CreatePool{Pool: &holdfastv1.Pool{PoolId: long + "x"}}, "pools/?", "INVALID_ARGUMENT", "INVALID_FIELD"},
		{&internalv1.RemovePeer{Id: "p9"}, "peers/p9", "OK", ""},
		{&internalv1.BeginAttempt{RunId: "run-r-1"}, "runs/run-r-1", "", ""},
	} {
		p := fsmtest.NewPeer()
		register(t, p, "m-1", ready)
		start(t, p, "m-1", "r-1", "REBOOT", "")
		finish(t, p, "run-r-1", succeeded)
		r := from(p, admin(), tt.op)
		got := newestEvent(t, p)
		if tt.outcome == "" { // an executor's command, whatever its result
			tt.outcome, tt.reason = r.Err.Code.String(), r.Err.Reason
		}
		want := &holdfastv1.AuditEvent{Sequence: 1, At: timestamppb.New(p.Now), Principal: "tester",
			Source: "10.0.0.1:5000", Peer: "p1", Method: "/m", RequestId: "call-1",
			Resource: tt.resource, Outcome: tt.outcome, Reason: tt.reason, Index: p.Index, Count: 1}
		want.Hash = holdfastv1.AuditHash(want)
		same(t, fmt.Sprintf("event of %v (%v)", tt.op, r.Err), want, got)
	}
}

func TestAuditNamesTheRequest(t *testing.T) {
	p := fsmtest.NewPeer()
	register(t, p, "m-1", ready)
	from(p, &internalv1.Origin{}, startOp("m-1", "r-1", "REBOOT", ""))
	if got := newestEvent(t, p).GetRequestId(); got != "r-1" {
		t.Errorf("got request id %q, want that of the run", got)
	}
}

func TestCommandsOfTheClusterLeaveNoEvent(t *testing.T) {
	p := fsmtest.NewPeer()
	register(t, p, "m-1", ready)
	start(t, p, "m-1", "r-1", "REBOOT", "")
	finish(t, p, "run-r-1", succeeded)
	if first, last, hash := p.View().Audit(); first != 0 || last != 0 || len(hash) != 0 {
		t.Errorf("got events %d to %d with hash %x, want none", first, last, hash)
	}
	if es, err := p.View().AuditAfter(0, 10); len(es) != 0 || err != nil {
		t.Errorf("got %v, %v", es, err)
	}
}

func TestRecordDenials(t *testing.T) {
	p := fsmtest.NewPeer()
	early := timestamppb.New(p.Now.Add(-time.Second))
	do(t, p, &internalv1.RecordDenials{Events: []*holdfastv1.AuditEvent{
		{Principal: "token:ci", Source: "10.0.0.9:1", Method: "/m", Resource: "machines/m-1", Outcome: "PERMISSION_DENIED",
			Reason: "ROLE", At: early},
		{Source: "10.0.0.9", Outcome: "UNAUTHENTICATED", Count: 4711, At: timestamppb.New(p.Now.Add(time.Hour)),
			Sequence: 77, Index: 78, Hash: []byte("x"), PreviousHash: []byte("y")},
		{Outcome: "UNAUTHENTICATED", Method: strings.Repeat("ü", 200), Principal: strings.Repeat("p", 300)},
	}})
	events := slices.Collect(p.View().AuditEvents(0))
	slices.Reverse(events)
	if err := fsmtest.CheckAudit(p.View()); err != nil {
		t.Error(err)
	}
	if e := events[0]; e.GetCount() != 1 || !proto.Equal(e.GetAt(), early) || e.GetIndex() != p.Index ||
		e.GetReason() != "ROLE" {
		t.Errorf("the first: got %v", e)
	}
	if e := events[1]; e.GetCount() != 4711 || !e.GetAt().AsTime().Equal(p.Now) || e.GetSequence() != 2 ||
		e.GetIndex() != p.Index {
		t.Errorf("the second: got %v", e)
	}
	if e := events[2]; len(e.GetMethod()) > 128 || !utf8.ValidString(e.GetMethod()) || len(e.GetPrincipal()) > 256 {
		t.Errorf("the third: got %v", e)
	}
	denial := &holdfastv1.AuditEvent{Outcome: "UNAUTHENTICATED"}
	do(t, p, &internalv1.RecordDenials{Events: slices.Repeat([]*holdfastv1.AuditEvent{denial}, fsm.MaxDenials)})
	refused(t, p, &internalv1.RecordDenials{Events: slices.Repeat([]*holdfastv1.AuditEvent{denial}, fsm.MaxDenials+1)},
		fsm.InvalidArgument, "INVALID_FIELD")
	for _, outcome := range []string{"", "OK"} {
		refused(t, p, &internalv1.RecordDenials{Events: []*holdfastv1.AuditEvent{denial, {Outcome: outcome}}},
			fsm.InvalidArgument, "INVALID_FIELD")
	}
}

func TestAuditQueries(t *testing.T) {
	p := fsmtest.NewPeer()
	for range 5 {
		from(p, admin(), &internalv1.DeletePlan{PlanId: "none"})
	}
	v := p.View()
	sequences := func(es []*holdfastv1.AuditEvent) (ns []uint64) {
		for _, e := range es {
			ns = append(ns, e.GetSequence())
		}
		return ns
	}
	same(t, "newest first", []uint64{5, 4, 3, 2, 1}, sequences(slices.Collect(v.AuditEvents(0))))
	same(t, "before 3", []uint64{2, 1}, sequences(slices.Collect(v.AuditEvents(3))))
	for _, tt := range []struct {
		after uint64
		limit int
		want  []uint64
		code  fsm.Code
	}{
		{0, 10, []uint64{1, 2, 3, 4, 5}, 0}, {0, 2, []uint64{1, 2}, 0}, {2, 2, []uint64{3, 4}, 0}, {5, 2, nil, 0}, {6, 2,
			nil, fsm.OutOfRange},
	} {
		es, err := v.AuditAfter(tt.after, tt.limit)
		var code fsm.Code
		if refusal, ok := err.(*fsm.Error); ok { //nolint:errorlint // it is never wrapped
			code = refusal.Code
		}
		same(t, fmt.Sprintf("after %d", tt.after), tt.want, sequences(es))
		if code != tt.code {
			t.Errorf("after %d: got %v", tt.after, err)
		}
	}
}

// TestAuditChainAlwaysVerifies draws logs and restores peers in between. Each command with an
// origin adds exactly one event, and the chain verifies at any time.
func TestAuditChainAlwaysVerifies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, g := furnished(), &fsmtest.Generator{Chooser: drawn{t}}
		for range rapid.IntRange(1, 40).Draw(t, "length") {
			c := g.Next(p.View())
			was := p.View()
			_, before, _ := was.Audit()
			r := p.Propose(c)[0]
			want := before + detached(was, p.View())
			if c.GetOrigin() != nil {
				want++
			}
			if r.Err == nil {
				want += uint64(len(c.GetRecordDenials().GetEvents()))
			}
			if _, got, _ := p.View().Audit(); got != want {
				t.Fatalf("%v: %d events, want %d", c, got, want)
			}
			if c.GetOrigin() != nil {
				e := newestEvent(&testing.T{}, p)
				if ok := e.GetOutcome() == "OK"; ok != (r.Err == nil) || e.GetPrincipal() != c.GetPrincipal() ||
					e.GetTokenId() != c.GetOrigin().GetTokenId() {
					t.Fatalf("%v: got %v and the event %v", c, r.Err, e)
				}
			}
			if rapid.IntRange(0, 4).Draw(t, "restore") == 0 {
				p = through(t, p)
			}
			if err := fsmtest.CheckAudit(p.View()); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// detached returns the number of console sessions that a command has ended. Each has an event.
func detached(before, after *fsm.View) (n uint64) {
	for s := range before.ConsoleSessions("") {
		if now, ok := after.ConsoleSession(s.GetSessionId()); s.GetDetachedAt() == nil && ok && now.GetDetachedAt() != nil {
			n++
		}
	}
	return n
}

// TestAuditChainNoticesEveryChange changes one field of one event, omits one, or swaps two.
// Each change is found, at the right place. Events that were converted to JSON and back
// verify.
func TestAuditChainNoticesEveryChange(t *testing.T) {
	p := lived(5, 150)
	events, err := p.View().AuditAfter(0, 1<<20)
	if err != nil || len(events) < 20 {
		t.Fatalf("got %d events, %v", len(events), err)
	}
	verify := func(es []*holdfastv1.AuditEvent) (uint64, error) {
		var chain holdfastv1.AuditChain
		for _, e := range es {
			b, err := protojson.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			var back holdfastv1.AuditEvent
			if err := protojson.Unmarshal(b, &back); err != nil {
				t.Fatal(err)
			}
			if err := chain.Add(&back); err != nil {
				return back.GetSequence(), err
			}
		}
		return chain.Count, nil
	}
	if n, err := verify(events); err != nil || n != uint64(len(events)) {
		t.Fatalf("as it is: %d, %v", n, err)
	}
	fields := (&holdfastv1.AuditEvent{}).ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		forged := slices.Clone(events)
		forged[10] = proto.CloneOf(forged[10])
		m := forged[10].ProtoReflect()
		switch {
		case fd.Name() == "at":
			forged[10].At.Nanos++
		case fd.Name() == "sequence":
			forged[10].Sequence++
		case fd.Name() == "index":
			forged[10].Index++
		case fd.Name() == "count":
			forged[10].Count++
		case fd.Name() == "hash":
			forged[10].Hash[3] ^= 1
		case fd.Name() == "previous_hash":
			forged[10].PreviousHash[3] ^= 1
		default:
			m.Set(fd, fd.Default())
			if s := events[10].ProtoReflect().Get(fd).String(); s == "" {
				forged[10].ProtoReflect().Set(fd, events[0].ProtoReflect().Get(fields.ByName("method")))
			}
		}
		if at, err := verify(forged); err == nil || (at != 11 && at != 12) {
			t.Errorf("a changed %s is noticed at %d: %v", fd.Name(), at, err)
		}
	}
	if _, err := verify(slices.Delete(slices.Clone(events), 7, 8)); err == nil ||
		!strings.Contains(err.Error(), "event 8 is missing") {
		t.Errorf("one is missing: %v", err)
	}
	if _, err := verify(slices.Delete(slices.Clone(events), 7, 10)); err == nil ||
		!strings.Contains(err.Error(), "events 8 to 10 are missing") {
		t.Errorf("three are missing: %v", err)
	}
	swapped := slices.Clone(events)
	swapped[3], swapped[4] = swapped[4], swapped[3]
	if _, err := verify(swapped); err == nil {
		t.Error("swapped events verify")
	}
	rehashed := slices.Clone(events)
	rehashed[6] = proto.CloneOf(rehashed[6])
	rehashed[6].Outcome = "OK2"
	rehashed[6].Hash = holdfastv1.AuditHash(rehashed[6])
	if at, err := verify(rehashed); err == nil || at != 8 {
		t.Errorf("an event that was changed and hashed anew is noticed at %d: %v", at, err)
	}
	chain := holdfastv1.AuditChain{Sequence: events[4].GetSequence(), Hash: events[4].GetHash()}
	if err := chain.Add(events[5]); err != nil {
		t.Errorf("go on after event 5: %v", err)
	}
}

// TestAuditHashIsStable pins the layout, because exported events must remain verifiable.
func TestAuditHashIsStable(t *testing.T) {
	e := &holdfastv1.AuditEvent{Sequence: 2, At: timestamppb.New(time.Unix(1_769_699_400, 5)), Principal: "token:ci",
		Source: "10.0.0.1:5000", Peer: "p1",
		Method: "/holdfast.v1.RunService/StartRun", Resource: "machines/m-1", RequestId: "r-1", Outcome: "OK", Index: 77,
		Count:        1,
		PreviousHash: bytes.Repeat([]byte{7}, 32), TokenId: "t-1"}
	if got, want := fmt.Sprintf("%x",
		holdfastv1.AuditHash(e)), "d38178e748ae954b3af786acd412cb669f8f7582f750e7ab8680c39875e1e8ad"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	// Moving text from one field to the next changes the hash.
	a, b := &holdfastv1.AuditEvent{Source: "ab", Peer: "c"}, &holdfastv1.AuditEvent{Source: "a", Peer: "bc"}
	if bytes.Equal(holdfastv1.AuditHash(a), holdfastv1.AuditHash(b)) {
		t.Error("two events have one hash")
	}
}

// TestAuditKeepsSoMany fills the trail beyond its bound. The oldest events are deleted, the
// others verify, and a number that is too old is refused.
func TestAuditKeepsSoMany(t *testing.T) {
	const kept = 1 << 18
	p := overflowing(t, kept+1500)
	restored := restoredPeer(t, p)
	if err := fsmtest.CheckAudit(restored.View()); err != nil {
		t.Error(err)
	}
	for _, peer := range []*fsmtest.Peer{p, restored} {
		first, last, _ := peer.View().Audit()
		if last-first+1 != kept || last < kept+1000 {
			t.Fatalf("got events %d to %d, want %d of them", first, last, kept)
		}
		if _, err := peer.View().AuditAfter(first-2, 1); err == nil {
			t.Error("a number that is too old is not refused")
		}
		if es, err := peer.View().AuditAfter(first-1, 1); err != nil || es[0].GetSequence() != first {
			t.Errorf("go on right before the oldest: got %v, %v", es, err)
		}
		from(peer, admin(), &internalv1.DeletePlan{PlanId: "none"})
		if f, l, _ := peer.View().Audit(); f != first+1 || l != last+1 {
			t.Errorf("one more: got %d to %d, want %d to %d", f, l, first+1, last+1)
		}
	}
}

// overflowing returns a peer with at least so many audit events, of ordinary size.
func overflowing(t testing.TB, n int) *fsmtest.Peer {
	t.Helper()
	p := fsmtest.NewPeer()
	for i := 0; i < n; {
		c := &internalv1.RecordDenials{}
		for range fsm.MaxDenials {
			i++
			c.Events = append(c.Events, &holdfastv1.AuditEvent{Principal: "user:alice", Source: "10.20.30.40:53412",
				Peer: "p1", Method: "/holdfast.v1.RunService/StartRun",
				Resource: fmt.Sprintf("machines/m-%d/runs/run-%012x", i%1000, i), RequestId: fmt.Sprintf("request-%d",
					i), Outcome: "PERMISSION_DENIED", TokenId: "0a1b2c3d"})
		}
		if r := p.Do(c); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	return p
}

func restoredPeer(t testing.TB, p *fsmtest.Peer) *fsmtest.Peer {
	t.Helper()
	b, err := fsmtest.Bytes(p.FSM)
	if err != nil {
		t.Fatal(err)
	}
	q := &fsmtest.Peer{FSM: fsm.New(), Index: p.Index, Term: p.Term, Now: p.Now}
	if err := q.Restore(bytes.NewReader(b)); err != nil {
		t.Fatal(err)
	}
	return q
}

// TestOriginsReachEverything checks the property tests: every refusal of access must occur.
func TestOriginsReachEverything(t *testing.T) {
	refusals := map[string]int{}
	for seed := range uint64(300) {
		p, g := furnished(), &fsmtest.Generator{Chooser: seeded{rand.New(rand.NewPCG(seed, 9))}}
		for range 150 {
			if r := p.Propose(g.Next(p.View()))[0]; r.Err != nil {
				refusals[r.Err.Reason]++
			}
		}
	}
	for _, reason := range []string{fsm.ReasonTokenUnknown, fsm.ReasonTokenRevoked, fsm.ReasonTokenExpired,
		fsm.ReasonOutOfScope, fsm.ReasonPrivilege,
		fsm.ReasonBootstrapped, fsm.ReasonSecretVersion, fsm.ReasonSecretInUse, fsm.ReasonSigningKeyMoved,
		"TOKEN_NOT_FOUND", "SECRET_NOT_FOUND", "SECRET_TYPE"} {
		if refusals[reason] == 0 {
			t.Errorf("nothing was refused with %s", reason)
		}
	}
}
