package consoles

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	"github.com/holdfast-metal/holdfast/fsm/internal/lifecycle"
	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	"github.com/holdfast-metal/holdfast/fsm/internal/trail"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

const (
	maxOpen     = 1024   // console sessions that are attached
	maxSessions = 10_000 // console sessions in all: the oldest that has ended makes room
	maxKeep     = 10 * 365 * 24 * time.Hour
	maxReason   = 200 // bytes
)

// The reasons of EndAll.
const (
	LeaderLost = "the leader was lost"
	Restored   = "a snapshot was restored"
)

// unknown is the number of typed bytes if only the lost leader knew it.
const unknown = -1

// method is the method in the audit events of console sessions.
const method = "holdfast.v1.ConsoleService/Attach"

// Open records that a caller attaches to the console of a run. The audit event of the command is
// that of the attachment.
func Open(t *core.Tx, c *internalv1.OpenConsole) (*holdfastv1.ConsoleSession, *refusal.Error) {
	run, ok := t.Runs.Get(c.GetRunId())
	switch keep := c.GetKeepMs(); {
	case !lex.ValidName(c.GetSessionId(), 64):
		return nil, refusal.InvalidField("session_id", "%q is not 1 to 64 letters, digits, '.', '_', '-' or ':'",
			c.GetSessionId())
	case keep < 0 || keep > maxKeep.Milliseconds():
		return nil, refusal.InvalidField("keep_ms", "%d is not 0 to %d", keep, maxKeep.Milliseconds())
	case !ok:
		return nil, refusal.New(refusal.NotFound, "RUN_NOT_FOUND", "run %q not found", c.GetRunId()).
			With("run_id", c.GetRunId())
	case !run.GetConcurrent():
		return nil, refusal.New(refusal.FailedPrecondition, "NO_CONSOLE",
			"run %s of plan %s has no console: start a run of plan/console", run.GetRunId(), run.GetPlanId())
	case lifecycle.Ended(run):
		return nil, refusal.New(refusal.FailedPrecondition, refusal.ReasonRunFinished, "run %s has %s", run.GetRunId(),
			run.GetPhase()).With("run_id", run.GetRunId())
	case t.ConsoleSessions.Has(c.GetSessionId()):
		return nil, refusal.New(refusal.Aborted, refusal.ReasonIDTaken, "generated session id %q is in use",
			c.GetSessionId())
	}
	attached := 0
	for range t.ConsoleSessions.Scan(schema.ConsolesOpen, "", "") {
		attached++
	}
	if attached >= maxOpen {
		return nil, refusal.New(refusal.FailedPrecondition, "TOO_MANY_CONSOLES",
			"%d callers are attached to consoles, and no more are allowed: leave one", attached)
	}
	makeRoom(t)
	o := t.Command.GetOrigin()
	s := &holdfastv1.ConsoleSession{
		SessionId:  c.GetSessionId(),
		MachineId:  run.GetMachineId(),
		RunId:      run.GetRunId(),
		Pool:       run.GetPool(),
		Principal:  lex.Clip(t.Command.GetPrincipal(), core.MaxPrincipal),
		Source:     lex.Clip(o.GetSource(), maxReason),
		Peer:       lex.Clip(o.GetPeer(), maxReason),
		ReadOnly:   c.GetReadOnly(),
		AttachedAt: t.Now,
		Recorded:   c.GetRecord(),
		KeepFor:    durationpb.New(time.Duration(c.GetKeepMs()) * time.Millisecond),
	}
	t.ConsoleSessions.Put(s)
	return s, nil
}

// makeRoom deletes the oldest session that has ended if there are too many.
func makeRoom(t *core.Tx) {
	if t.ConsoleSessions.Len() < maxSessions {
		return
	}
	for s := range t.ConsoleSessions.Ascend("", "") { // at most maxOpen of them have not ended
		if s.GetDetachedAt() != nil {
			remove(t, s)
			return
		}
	}
}

// remove deletes a session and its output.
func remove(t *core.Tx, s *holdfastv1.ConsoleSession) {
	forget(t, s)
	t.ConsoleSessions.Delete(s.GetSessionId())
}

// forget deletes the output of a session.
func forget(t *core.Tx, s *holdfastv1.ConsoleSession) {
	var blocks []string
	for b := range t.ConsoleOutput.Ascend(s.GetSessionId()+"/", "") {
		blocks = append(blocks, schema.OutputKey(b))
	}
	for _, key := range blocks {
		t.ConsoleOutput.Delete(key)
	}
	t.Meta.ConsoleBytes -= s.GetRecordedBytes()
}

// Close ends a session. Its audit event names the caller that was attached.
func Close(t *core.Tx, c *internalv1.CloseConsole) *refusal.Error {
	s, ok := t.ConsoleSessions.Get(c.GetSessionId())
	if !ok || s.GetDetachedAt() != nil {
		return nil
	}
	detach(t, s, c.GetReason(), max(0, c.GetTypedBytes()))
	return nil
}

// EndAll ends all sessions that are attached, because what they were attached to is lost.
func EndAll(t *core.Tx, reason string) {
	var open []*holdfastv1.ConsoleSession
	for _, s := range t.ConsoleSessions.Scan(schema.ConsolesOpen, "", "") {
		open = append(open, s)
	}
	for _, s := range open {
		detach(t, s, reason, unknown)
	}
}

func detach(t *core.Tx, s *holdfastv1.ConsoleSession, reason string, typed int64) {
	s = proto.CloneOf(s)
	s.DetachedAt, s.End, s.TypedBytes = t.Now, lex.Clip(reason, maxReason), max(0, typed)
	s.KeepUntil = timestamppb.New(t.Now.AsTime().Add(s.GetKeepFor().AsDuration()))
	t.ConsoleSessions.Put(s)
	detail := "detached: " + s.GetEnd()
	if !s.GetReadOnly() && typed != unknown {
		detail = fmt.Sprintf("detached after %d bytes of input: %s", s.GetTypedBytes(), s.GetEnd())
	}
	trail.ChainAudit(t, &holdfastv1.AuditEvent{
		At:        t.Now,
		Principal: s.GetPrincipal(),
		Source:    s.GetSource(),
		Peer:      s.GetPeer(),
		Method:    method,
		Resource:  trail.ConsoleResource(s),
		Outcome:   trail.AuditOK,
		Detail:    detail,
		Count:     1,
	})
}

// Drop deletes sessions whose time is up. It keeps others, even if the proposer named them.
func Drop(t *core.Tx, c *internalv1.DropConsoles) *refusal.Error {
	for _, id := range c.GetSessionIds() {
		if s, ok := t.ConsoleSessions.Get(id); ok && due(s, t.Now.AsTime()) {
			remove(t, s)
		}
	}
	return nil
}
