package trail

import (
	"iter"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// maxAudit bounds the number of audit events kept: about 80 MB. It is a constant because
// every peer must keep the same events.
const maxAudit = 1 << 18

// maxAuditText bounds the texts of an event besides principal and resource, in bytes. Callers
// choose most of them.
const maxAuditText = 128

// AuditOK is the outcome of a command that was not refused.
const AuditOK = "OK"

// AddAudit records a call and its result, once for each command that has an origin. A replay
// is a call too.
func AddAudit(t *core.Tx, resource string, value proto.Message, err *refusal.Error) {
	o := t.Command.GetOrigin()
	e := &holdfastv1.AuditEvent{
		At:        t.Now,
		Principal: t.Command.GetPrincipal(),
		Source:    o.GetSource(),
		Peer:      o.GetPeer(),
		Method:    o.GetMethod(),
		Resource:  resource,
		RequestId: o.GetRequestId(),
		TokenId:   o.GetTokenId(),
		Outcome:   AuditOK,
		Count:     1,
	}
	if err != nil {
		e.Outcome, e.Reason = err.Code.String(), err.Reason
	}
	if r, detail := made(value); r != "" {
		e.Resource, e.Detail = r, detail
	}
	if e.GetRequestId() == "" {
		e.RequestId = t.Command.GetStartRun().GetRequestId()
	}
	ChainAudit(t, e)
}

// made returns the resource that a command has made, if the command does not determine its
// id, and what else the event needs of it.
func made(value proto.Message) (resource, detail string) {
	switch v := value.(type) {
	case *holdfastv1.Run:
		if v != nil {
			return "machines/" + v.GetMachineId() + "/runs/" + v.GetRunId(), ""
		}
	case *holdfastv1.ConsoleSession:
		if v.GetReadOnly() {
			return ConsoleResource(v), "attached to read"
		}
		return ConsoleResource(v), "attached to type"
	}
	return "", ""
}

// ConsoleResource returns the resource of a console session in the audit trail.
func ConsoleResource(s *holdfastv1.ConsoleSession) string {
	return "machines/" + s.GetMachineId() + "/runs/" + s.GetRunId() + "/consoles/" + s.GetSessionId()
}

// ChainAudit appends an event to the chain. Sequences count from 1 without a gap, and each
// hash covers the previous one. That proves that no event is missing.
func ChainAudit(t *core.Tx, e *holdfastv1.AuditEvent) {
	for _, s := range []*string{&e.Source, &e.Peer, &e.Method, &e.RequestId, &e.Outcome, &e.Reason, &e.Detail} {
		*s = lex.Clip(*s, maxAuditText)
	}
	if e.GetTokenId() != "" {
		e.TokenId = lex.Ident(e.GetTokenId())
	}
	e.Principal = lex.Clip(e.GetPrincipal(), core.MaxPrincipal)
	e.Resource = lex.Clip(e.GetResource(), core.MaxPrincipal)
	t.Meta.LastAudit++
	e.Sequence, e.Index, e.PreviousHash = t.Meta.GetLastAudit(), t.Index, t.Meta.GetAuditHash()
	e.Hash = holdfastv1.AuditHash(e)
	t.Meta.AuditHash = e.GetHash()
	t.State.Audit.Append(e)
	t.Meta.FirstAudit = core.FirstKept(t.Meta.GetFirstAudit(), t.Meta.GetLastAudit(), maxAudit)
	t.State.Audit.DropBefore(t.Meta.GetFirstAudit())
}

// RecordDenials records calls that were refused before they became commands, by policy or
// because the caller is unknown. Their outcome cannot be OK, so they cannot claim that
// something was done.
func RecordDenials(t *core.Tx, c *internalv1.RecordDenials) *refusal.Error {
	for i, e := range c.GetEvents() {
		if o := e.GetOutcome(); o == "" || o == AuditOK {
			return refusal.InvalidField("events", "event %d has outcome %q: a denial names the code of the refusal",
				i, o)
		}
	}
	for _, e := range c.GetEvents() {
		at := e.GetAt()
		if !at.IsValid() || at.AsTime().After(t.Now.AsTime()) {
			at = t.Now
		}
		ChainAudit(t, &holdfastv1.AuditEvent{
			At:        at,
			Principal: e.GetPrincipal(),
			Source:    e.GetSource(),
			Peer:      e.GetPeer(),
			Method:    e.GetMethod(),
			Resource:  e.GetResource(),
			RequestId: e.GetRequestId(),
			TokenId:   e.GetTokenId(),
			Outcome:   e.GetOutcome(),
			Reason:    e.GetReason(),
			Count:     max(1, e.GetCount()),
		})
	}
	return nil
}

// Audit returns the sequences of the oldest and the newest audit event kept, and the hash of
// the newest. All are zero if there is none.
func (v *View) Audit() (first, last uint64, hash []byte) {
	m := v.s.Meta
	return m.GetFirstAudit(), m.GetLastAudit(), append([]byte(nil), m.GetAuditHash()...)
}

// AuditEvents returns the audit events below a sequence number, newest first. If before is
// zero, it starts at the newest.
func (v *View) AuditEvents(before uint64) iter.Seq[*holdfastv1.AuditEvent] {
	if before == 0 {
		before = ^uint64(0)
	}
	return v.s.Audit.Before(before)
}

// AuditAfter returns at most limit audit events above a sequence number, oldest first. If seq
// is zero, it starts at the oldest event kept. A number that is too old to resume from, or
// that was never issued, is OutOfRange: a gap would be mistaken for a broken chain.
func (v *View) AuditAfter(seq uint64, limit int) ([]*holdfastv1.AuditEvent, error) {
	first, last := v.s.Meta.GetFirstAudit(), v.s.Meta.GetLastAudit()
	if seq > 0 && (seq+1 < first || seq > last) {
		return nil, refusal.New(refusal.OutOfRange, refusal.ReasonCursorGone,
			"audit event %d is not kept: events %d to %d are; start without a number to read all of them",
			seq, first, last)
	}
	return v.s.Audit.Page(seq, limit), nil
}
