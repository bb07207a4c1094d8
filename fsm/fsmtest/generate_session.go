package fsmtest

import (
	"bytes"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

const (
	sessionIDs = 6
	consoleIDs = 200
)

// sessionGenerator makes the commands about sessions of people and about console sessions.
type sessionGenerator struct{ draw }

func (g sessionGenerator) choices() []choice {
	return []choice{
		{2, "note sessions", g.noteSessions},
		{2, "end a session", g.endSession},
		{1, "drop sessions", g.dropSessions},
		{3, "open a console session", g.openConsole},
		{5, "record a console session", g.recordConsole},
		{2, "close a console session", g.closeConsole},
		{1, "drop console sessions", g.dropConsoles},
	}
}

func (g sessionGenerator) session(v *fsm.View) *holdfastv1.Session {
	life := time.Duration(g.Choose("seconds", 60)) * time.Second
	return &holdfastv1.Session{SessionId: g.id("session", sessionIDs), Principal: g.id("user", 3), Kind: "dashboard",
		ExpiresAt: timestamppb.New(v.Meta().GetNow().AsTime().Add(life))}
}

func (g sessionGenerator) noteSessions(v *fsm.View) proto.Message {
	return &internalv1.NoteSessions{Sessions: []*holdfastv1.Session{g.session(v), g.session(v)}}
}

func (g sessionGenerator) endSession(v *fsm.View) proto.Message {
	s := oneOf(g.draw, "session", slices.Collect(v.Sessions("")))
	if s == nil && !g.rarely("an unknown session") {
		return g.noteSessions(v)
	}
	c := &internalv1.EndSession{SessionId: s.GetSessionId()}
	if g.rarely("one that is not noted") {
		c.Session = g.session(v)
		c.SessionId = c.GetSession().GetSessionId()
	}
	return c
}

func (g sessionGenerator) dropSessions(*fsm.View) proto.Message {
	return &internalv1.DropSessions{SessionIds: []string{g.id("session", sessionIDs), g.id("session", sessionIDs)}}
}

func (g sessionGenerator) openConsole(v *fsm.View) proto.Message {
	c := &internalv1.OpenConsole{SessionId: g.id("con", consoleIDs), RunId: g.id("run", runIDs),
		Record: g.Choose("recorded", 3) > 0, ReadOnly: g.Choose("read only", 2) == 0,
		KeepMs: int64(g.Choose("kept", 60)) * 1000}
	for _, r := range v.Runs("") {
		if r.GetConcurrent() && !fsm.Ended(r) && !g.rarely("another run") {
			c.RunId = r.GetRunId()
			return c
		}
	}
	if g.rarely("a run without a console") {
		return c
	}
	if g.Choose("start one", 3) > 0 {
		return g.noteSessions(v)
	}
	return &internalv1.StartRun{RunId: c.GetRunId(), MachineId: g.id("m", machineIDs), RequestId: c.GetRunId(),
		PlanId: "plan/console", DefaultTimeoutSeconds: 600}
}

// consoleSession returns a console session, mostly one that is attached.
func (g sessionGenerator) consoleSession(v *fsm.View) *holdfastv1.ConsoleSession {
	all := slices.Collect(v.ConsoleSessions(""))
	ended := func(s *holdfastv1.ConsoleSession) bool { return s.GetDetachedAt() != nil }
	open := slices.DeleteFunc(slices.Clone(all), ended)
	if len(open) > 0 && !g.rarely("one that has ended") {
		all = open
	}
	if s := oneOf(g.draw, "console session", all); s != nil {
		return s
	}
	return &holdfastv1.ConsoleSession{SessionId: g.id("con", consoleIDs)}
}

func (g sessionGenerator) recordConsole(v *fsm.View) proto.Message {
	s := g.consoleSession(v)
	if (s.GetDetachedAt() != nil || !s.GetRecorded()) && !g.rarely("not recorded") {
		return g.openConsole(v)
	}
	c := &internalv1.RecordConsole{SessionId: s.GetSessionId(), Offset: s.GetRecordedBytes()}
	if g.rarely("again") {
		c.Offset = 0
	}
	if g.rarely("a gap") {
		c.Offset++
	}
	for range 1 + g.Choose("pieces", 3) {
		n := 1 + g.Choose("bytes", 200)
		if g.rarely("a large piece") {
			n <<= 11
		}
		c.Output = append(c.Output, &holdfastv1.ConsoleOutput{At: v.Meta().GetNow(), Data: bytes.Repeat([]byte("x"), n)})
	}
	return c
}

func (g sessionGenerator) closeConsole(v *fsm.View) proto.Message {
	return &internalv1.CloseConsole{SessionId: g.consoleSession(v).GetSessionId(), Reason: "the caller left",
		TypedBytes: int64(g.Choose("typed", 9))}
}

func (g sessionGenerator) dropConsoles(v *fsm.View) proto.Message {
	return &internalv1.DropConsoles{SessionIds: []string{g.consoleSession(v).GetSessionId()}}
}
