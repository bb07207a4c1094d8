package fsm

import (
	"iter"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// maxAudit bounds how many audit events are kept: 80 MB or so. It is a constant because every peer
// must keep the same events.
const maxAudit = 1 << 18

// MaxDenials bounds how many events one RecordDenials carries.
const MaxDenials = 1000

// How long the texts of an event get, in bytes: callers choose most of them.
const (
	maxAuditText  = 128
	maxAuditThing = 256 // principal and resource
)

// auditOK is the outcome of a command that was not refused.
const auditOK = "OK"

func auditSchema() *schema[*holdfastv1.AuditEvent] {
	return &schema[*holdfastv1.AuditEvent]{
		kind: internalv1.SnapshotRecord_AUDIT,
		key:  func(e *holdfastv1.AuditEvent) string { return ordered(e.GetSequence()) },
		glance: func() func(string) *holdfastv1.AuditEvent {
			e := &holdfastv1.AuditEvent{}
			return glanceNumber(e, 1, &e.Sequence)
		},
	}
}

// addAudit writes down what somebody asked for and what became of it, once for each command that
// has an origin. A replay is one too: it was a call.
func (t *tx) addAudit(about concern, value proto.Message, err *Error) {
	o := t.cmd.GetOrigin()
	e := &holdfastv1.AuditEvent{At: t.now, Principal: t.cmd.GetPrincipal(), Source: o.GetSource(), Peer: o.GetPeer(), Method: o.GetMethod(),
		Resource: about.resource, RequestId: o.GetRequestId(), TokenId: o.GetTokenId(), Outcome: auditOK, Count: 1}
	if err != nil {
		e.Outcome, e.Reason = err.Code.String(), err.Reason
	}
	if r := made(value); r != "" {
		e.Resource = r
	}
	if e.GetRequestId() == "" {
		e.RequestId = t.cmd.GetStartRun().GetRequestId()
	}
	t.chainAudit(e)
}

// made names what a command has made under an id that the command does not say, or not surely.
func made(value proto.Message) string {
	if run, ok := value.(*holdfastv1.Run); ok && run != nil {
		return "machines/" + run.GetMachineId() + "/runs/" + run.GetRunId()
	}
	return ""
}

// chainAudit adds an event to the chain. Sequences count from 1 without a hole, and each hash
// covers the one before: that is how it is proved that none is missing.
func (t *tx) chainAudit(e *holdfastv1.AuditEvent) {
	for _, s := range []*string{&e.Source, &e.Peer, &e.Method, &e.RequestId, &e.Outcome, &e.Reason} {
		*s = clip(*s, maxAuditText)
	}
	if e.GetTokenId() != "" {
		e.TokenId = ident(e.GetTokenId())
	}
	e.Principal, e.Resource = clip(e.GetPrincipal(), maxAuditThing), clip(e.GetResource(), maxAuditThing)
	t.meta.LastAudit++
	e.Sequence, e.Index, e.PreviousHash = t.meta.GetLastAudit(), t.index, t.meta.GetAuditHash()
	e.Hash = holdfastv1.AuditHash(e)
	t.meta.AuditHash = e.GetHash()
	t.state.audit.put(e)
	if t.meta.GetFirstAudit() == 0 {
		t.meta.FirstAudit = 1
	}
	for ; t.meta.GetLastAudit()-t.meta.GetFirstAudit() >= maxAudit; t.meta.FirstAudit++ {
		t.state.audit.delete(ordered(t.meta.GetFirstAudit()))
	}
}

// clip cuts a text to so many bytes, between two characters.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	const dots = "…"
	cut := most - len(dots)
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + dots
}

// recordDenials writes events of calls that were refused before they became commands: by policy, or
// because nobody knows who calls. They are not taken for more than that: they cannot say that
// something was done.
func (t *tx) recordDenials(c *internalv1.RecordDenials) *Error {
	if n := len(c.GetEvents()); n > MaxDenials {
		return invalid("events", "are %d, at most %d are allowed", n, MaxDenials)
	}
	for i, e := range c.GetEvents() {
		if o := e.GetOutcome(); o == "" || o == auditOK {
			return invalid("events", "event %d has outcome %q: a denial names the code of the refusal", i, o)
		}
	}
	for _, e := range c.GetEvents() {
		at := e.GetAt()
		if !at.IsValid() || at.AsTime().After(t.now.AsTime()) {
			at = t.now
		}
		t.chainAudit(&holdfastv1.AuditEvent{At: at, Principal: e.GetPrincipal(), Source: e.GetSource(), Peer: e.GetPeer(), Method: e.GetMethod(),
			Resource: e.GetResource(), RequestId: e.GetRequestId(), TokenId: e.GetTokenId(), Outcome: e.GetOutcome(), Reason: e.GetReason(),
			Count: max(1, e.GetCount())})
	}
	return nil
}

// Audit returns the sequences of the oldest and the newest audit event that are kept, and the
// newest's hash; zero if there was none.
func (v *View) Audit() (first, last uint64, hash []byte) {
	return v.meta.GetFirstAudit(), v.meta.GetLastAudit(), append([]byte(nil), v.meta.GetAuditHash()...)
}

// AuditEvents returns the audit events below a sequence number, newest first; from the newest on
// when before is zero.
func (v *View) AuditEvents(before uint64) iter.Seq[*holdfastv1.AuditEvent] {
	if before == 0 {
		before = ^uint64(0)
	}
	return v.audit.descend("", ordered(before))
}

// AuditAfter returns at most limit audit events above a sequence number, oldest first; from the
// oldest that is kept when it is zero. A number that is too old to go on from, or that was never
// given out, is OutOfRange: a hole would look like a broken chain.
func (v *View) AuditAfter(seq uint64, limit int) ([]*holdfastv1.AuditEvent, error) {
	first, last := v.meta.GetFirstAudit(), v.meta.GetLastAudit()
	if seq > 0 && (seq+1 < first || seq > last) {
		return nil, refuse(OutOfRange, ReasonCursorGone, "audit event %d is not kept: events %d to %d are; start without a number to read all of them", seq, first, last)
	}
	var es []*holdfastv1.AuditEvent
	for e := range v.audit.ascend("", ordered(seq)) {
		if len(es) == limit {
			break
		}
		es = append(es, e)
	}
	return es, nil
}
