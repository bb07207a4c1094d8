package fsm_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// asked returns a command of a caller.
func asked(op proto.Message, principal string, o *internalv1.Origin) *internalv1.Command {
	c := fsmtest.Command(op)
	c.Principal, c.Origin = principal, o
	return c
}

// reasonOf returns the reason of a refusal, or "".
func reasonOf(err *fsm.Error) string {
	if err == nil {
		return ""
	}
	return err.Reason
}

func noteSession(t *testing.T, p *fsmtest.Peer, id, principal string, life time.Duration) {
	t.Helper()
	do(t, p, &internalv1.NoteSessions{Sessions: []*holdfastv1.Session{{SessionId: id, Principal: principal,
		Kind: "dashboard", ExpiresAt: timestamppb.New(p.Now.Add(life))}}})
}

// TestEndSession checks who may end a session, and that an ended one gives no command.
func TestEndSession(t *testing.T) {
	operator := &internalv1.Origin{Role: holdfastv1.Role_OPERATOR, Pools: []string{"a"}}
	admin := &internalv1.Origin{Role: holdfastv1.Role_ADMIN}
	unknown := &holdfastv1.Session{SessionId: "s-new", Principal: "user:ann"}
	for _, tt := range []struct {
		name, principal string
		origin          *internalv1.Origin
		id              string
		session         *holdfastv1.Session
		want            string // reason; empty: ended
	}{
		{"its owner, with a scope", "user:ann", operator, "s-ann", nil, ""},
		{"an admin", "user:root", admin, "s-ann", nil, ""},
		{"another person", "user:bob", operator, "s-ann", nil, "SESSION_NOT_FOUND"},
		{"an agent", "agent:m-1", &internalv1.Origin{Role: holdfastv1.Role_AGENT, MachineId: "m-1"}, "s-ann", nil,
			"SESSION_NOT_FOUND"},
		{"unknown", "user:root", admin, "s-none", nil, "SESSION_NOT_FOUND"},
		{"its owner, before it was noted", "user:ann", operator, "s-new", unknown, ""},
		{"another person, before it was noted", "user:bob", operator, "s-new", unknown, "SESSION_NOT_FOUND"},
	} {
		p := fsmtest.NewPeer()
		noteSession(t, p, "s-ann", "user:ann", time.Hour)
		if tt.session != nil {
			tt.session.ExpiresAt = timestamppb.New(p.Now.Add(time.Hour))
		}
		r := p.Propose(asked(&internalv1.EndSession{SessionId: tt.id, Session: tt.session}, tt.principal, tt.origin))[0]
		if got := reasonOf(r.Err); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
			continue
		}
		if tt.want != "" {
			continue
		}
		s, _ := p.View().Session(tt.id)
		if s.GetEndedAt() == nil || s.GetEndedBy() != tt.principal {
			t.Errorf("%s: got %v, want it ended", tt.name, s)
		}
		noteSession(t, p, tt.id, "user:ann", time.Hour) // another peer sees it for the first time
		r = p.Propose(asked(&internalv1.CreatePool{Pool: &holdfastv1.Pool{PoolId: "x"}}, "user:ann",
			&internalv1.Origin{Role: holdfastv1.Role_OPERATOR, SessionId: tt.id}))[0]
		if got := reasonOf(r.Err); got != fsm.ReasonSessionEnded {
			t.Errorf("%s: a command of the ended session: got %q, want %s", tt.name, got, fsm.ReasonSessionEnded)
		}
	}
}

// TestSessionsAreBounded checks that the sessions of one principal displace each other, those that
// were not ended first, and that sessions are dropped when they have expired and not before.
func TestSessionsAreBounded(t *testing.T) {
	p := fsmtest.NewPeer()
	noteSession(t, p, "other", "user:bob", time.Hour)
	for i := range 100 {
		id := fmt.Sprintf("s-%03d", i)
		noteSession(t, p, id, "user:ann", time.Hour+time.Duration(i)*time.Second)
		if i < 10 {
			do(t, p, &internalv1.EndSession{SessionId: id})
		}
	}
	n, ended := 0, 0
	for s := range p.View().Sessions("") {
		n++
		if s.GetEndedAt() != nil {
			ended++
		}
	}
	if n != 65 || ended != 10 {
		t.Errorf("got %d sessions, %d of them ended, want 65 and 10", n, ended)
	}
	do(t, p, &internalv1.DropSessions{SessionIds: []string{"other"}})
	if _, ok := p.View().Session("other"); !ok {
		t.Error("a session that has not expired was dropped")
	}
	p.Now = p.Now.Add(2 * time.Hour)
	do(t, p, &internalv1.NoOp{})
	due := p.View().DueSessions(p.Now, 1000)
	do(t, p, &internalv1.DropSessions{SessionIds: due})
	if got := p.View().Sizes()["sessions"]; len(due) != 65 || got != 0 {
		t.Errorf("%d sessions were due and %d are left, want 65 and 0", len(due), got)
	}
}

// consolePeer returns a peer with a console run of a machine in pool a.
func consolePeer(t *testing.T) *fsmtest.Peer {
	p := fsmtest.NewPeer()
	do(t, p, &internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: "m-1",
		Spec: &holdfastv1.MachineSpec{Pool: "a"}}})
	do(t, p, &internalv1.StartRun{RunId: "run-1", MachineId: "m-1", RequestId: "r", PlanId: "plan/console",
		DefaultTimeoutSeconds: 600})
	return p
}

// TestConsoleSession checks that attaching and detaching are in the audit trail with the caller,
// the machine, the run and the kind of access, also if the leader is lost.
func TestConsoleSession(t *testing.T) {
	p := consolePeer(t)
	ann := &internalv1.Origin{Role: holdfastv1.Role_OPERATOR, Pools: []string{"a"}, Source: "10.0.0.1", Peer: "n1",
		Method: "holdfast.v1.ConsoleService/Attach"}
	open := func(id string, readOnly bool, principal string, o *internalv1.Origin) string {
		return reasonOf(p.Propose(asked(&internalv1.OpenConsole{SessionId: id, RunId: "run-1", ReadOnly: readOnly}, principal,
			o))[0].Err)
	}
	got := []string{
		open("con-1", false, "user:ann", ann),
		open("con-2", true, "user:ann", ann),
		open("con-3", true, "user:ann", ann),
		open("con-1", false, "user:ann", ann),
		open("con-4", false, "user:bob", &internalv1.Origin{Role: holdfastv1.Role_OPERATOR, Pools: []string{"b"}}),
	}
	if diff := cmp.Diff([]string{"", "", "", "ID_TAKEN", "RUN_NOT_FOUND"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	do(t, p, &internalv1.CloseConsole{SessionId: "con-1", Reason: "the caller left", TypedBytes: 14})
	do(t, p, &internalv1.CloseConsole{SessionId: "con-1", Reason: "again", TypedBytes: 99})
	do(t, p, &internalv1.CloseConsole{SessionId: "con-2", Reason: "the run has ended"})
	do(t, p, &internalv1.LeaderEstablished{PeerId: "n2", Term: 9})
	var events []string
	for e := range p.View().AuditEvents(0) {
		if e.GetMethod() == ann.GetMethod() && e.GetOutcome() == "OK" {
			events = append(events, fmt.Sprintf("%s %s %s %s", e.GetPrincipal(), e.GetSource(), e.GetResource(), e.GetDetail()))
		}
	}
	const on = "user:ann 10.0.0.1 machines/m-1/runs/run-1/consoles/"
	want := []string{
		on + "con-3 detached: the leader was lost",
		on + "con-2 detached: the run has ended",
		on + "con-1 detached after 14 bytes of input: the caller left",
		on + "con-3 attached to read",
		on + "con-2 attached to read",
		on + "con-1 attached to type",
	}
	if diff := cmp.Diff(want, events); diff != "" {
		t.Errorf("audit trail, newest first: -want +got:\n%s", diff)
	}
	if err := fsmtest.CheckAudit(p.View()); err != nil {
		t.Error(err)
	}
	do(t, p, &internalv1.CancelRun{RunId: "run-1"})
	if got := open("con-5", false, "user:ann", ann); got != fsm.ReasonRunFinished {
		t.Errorf("the run has ended: got %q, want %s", got, fsm.ReasonRunFinished)
	}
}

// TestConsoleRecord checks that a record has all output once and in order, stops at its limit, and
// is deleted when its time is up.
func TestConsoleRecord(t *testing.T) {
	p := consolePeer(t)
	do(t, p, &internalv1.OpenConsole{SessionId: "con-1", RunId: "run-1", Record: true, KeepMs: 60_000})
	record := func(at int64, texts ...string) string {
		c := &internalv1.RecordConsole{SessionId: "con-1", Offset: at}
		for _, text := range texts {
			c.Output = append(c.Output, &holdfastv1.ConsoleOutput{Data: []byte(text)})
		}
		return reasonOf(p.Do(c).Err)
	}
	got := []string{record(0, "a", "bc"), record(0, "a", "bc"), record(17, "bc", "d"), record(53, "e"), record(52, "e")}
	if diff := cmp.Diff([]string{"", "", "", fsm.ReasonLogGap, ""}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	text := ""
	for out := range p.View().ConsoleOutput("con-1") {
		text += string(out.GetData())
	}
	s, _ := p.View().ConsoleSession("con-1")
	if text != "abcde" || s.GetRecordedBytes() != 5+4*16 {
		t.Errorf("got %q, %d bytes, want abcde and 69", text, s.GetRecordedBytes())
	}
	if n := p.View().Sizes()["console_output"]; n != 1 {
		t.Errorf("got %d blocks of output, want 1", n)
	}
	large := string(make([]byte, 100_000))
	for s.GetRecordedBytes() < 1<<20 && !s.GetTruncated() {
		record(s.GetRecordedBytes(), large)
		s, _ = p.View().ConsoleSession("con-1")
	}
	if !s.GetTruncated() || s.GetRecordedBytes() > 1<<20 {
		t.Errorf("got %d bytes, truncated %t, want at most 1 MiB and true", s.GetRecordedBytes(), s.GetTruncated())
	}
	do(t, p, &internalv1.CloseConsole{SessionId: "con-1", Reason: "left"})
	if got := record(s.GetRecordedBytes(), "late"); got != "NOT_RECORDED" {
		t.Errorf("after its end: got %q, want NOT_RECORDED", got)
	}
	for _, tt := range []struct {
		after time.Duration
		want  bool
	}{{50 * time.Second, true}, {20 * time.Second, false}} {
		p.Now = p.Now.Add(tt.after)
		do(t, p, &internalv1.NoOp{})
		do(t, p, &internalv1.DropConsoles{SessionIds: []string{"con-1"}})
		if _, ok := p.View().ConsoleSession("con-1"); ok != tt.want {
			t.Errorf("after %s more: kept %t, want %t", tt.after, ok, tt.want)
		}
	}
	if err := fsmtest.Check(p.View()); err != nil {
		t.Error(err)
	}
}
