package access

import (
	"iter"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

const (
	maxSessions      = 16384 // in all; the one that expires first makes room
	maxSessionsOfOne = 64    // of one principal
	maxSessionText   = 128   // bytes

	// keepEnded is how long an ended session of access tokens is remembered: its client may refresh
	// them, and the next ones are of the same session.
	keepEnded = 30 * 24 * time.Hour
)

// KindAPI is the kind of the sessions of an identity provider's access tokens.
const KindAPI = "api"

// SessionGood returns an error if the caller's session was ended. Its own end may be repeated.
func SessionGood(t *core.Tx, o *internalv1.Origin) *refusal.Error {
	id := o.GetSessionId()
	if id == "" || t.Command.GetEndSession().GetSessionId() == id {
		return nil
	}
	if s, ok := t.Sessions.Get(id); ok && s.GetEndedAt() != nil {
		return refusal.New(refusal.Unauthenticated, refusal.ReasonSessionEnded, "session %s was ended: sign in again", id)
	}
	return nil
}

// NoteSessions records sessions that peers have seen for the first time.
func NoteSessions(t *core.Tx, c *internalv1.NoteSessions) *refusal.Error {
	for _, s := range c.GetSessions() {
		if err := checkSession(s); err != nil {
			return err
		}
	}
	for _, s := range c.GetSessions() {
		known, ok := t.Sessions.Get(s.GetSessionId())
		switch later := s.GetExpiresAt().AsTime(); {
		case !later.After(t.Now.AsTime()):
		case !ok:
			putSession(t, s)
		case later.After(known.GetExpiresAt().AsTime()) && known.GetPrincipal() == s.GetPrincipal():
			known = proto.CloneOf(known)
			known.ExpiresAt = s.GetExpiresAt()
			t.Sessions.Put(known)
		}
	}
	return nil
}

func checkSession(s *holdfastv1.Session) *refusal.Error {
	switch {
	case !lex.ValidName(s.GetSessionId(), 64):
		return refusal.InvalidField("session_id", "%q is not 1 to 64 letters, digits, '.', '_', '-' or ':'",
			s.GetSessionId())
	case s.GetPrincipal() == "" || !lex.SingleLine(s.GetPrincipal()):
		return refusal.InvalidField("principal", "%q is not a principal", s.GetPrincipal())
	case !s.GetExpiresAt().IsValid() || s.GetExpiresAt().AsTime().Unix() <= 0:
		return refusal.InvalidField("expires_at", "is not a time")
	}
	return nil
}

// putSession stores a session that is new. Another one makes room: of the same principal, one that
// was not ended if possible, so that an ended one stays ended.
func putSession(t *core.Tx, s *holdfastv1.Session) {
	s = proto.CloneOf(s)
	s.Principal, s.State = lex.Clip(s.GetPrincipal(), core.MaxPrincipal), ""
	for _, text := range []*string{&s.Kind, &s.Method, &s.TokenId, &s.Source, &s.Peer, &s.EndedBy} {
		*text = lex.Clip(*text, maxSessionText)
	}
	if at := s.GetStartedAt(); !at.IsValid() || at.AsTime().After(t.Now.AsTime()) {
		s.StartedAt = t.Now
	}
	own, victim := 0, (*holdfastv1.Session)(nil)
	for _, other := range t.Sessions.Scan(schema.SessionsByPrincipal, s.GetPrincipal()+"\n", "") {
		own++
		if victim == nil || victim.GetEndedAt() != nil && other.GetEndedAt() == nil {
			victim = other
		}
	}
	if own < maxSessionsOfOne {
		victim = nil
	}
	if victim == nil && t.Sessions.Len() >= maxSessions {
		for _, first := range t.Sessions.Scan(schema.SessionsByExpiry, "", "") {
			victim = first
			break
		}
	}
	if victim != nil {
		t.Sessions.Delete(victim.GetSessionId())
	}
	t.Sessions.Put(s)
}

// EndSession ends a session, from this log entry on. Admins end any session, other callers their
// own; a foreign one is not found.
func EndSession(t *core.Tx, c *internalv1.EndSession) (*holdfastv1.Session, *refusal.Error) {
	s, ok := t.Sessions.Get(c.GetSessionId())
	if in := c.GetSession(); !ok && in != nil && in.GetSessionId() == c.GetSessionId() {
		if err := checkSession(in); err != nil {
			return nil, err
		}
		s, ok = proto.CloneOf(in), true // no peer has noted it yet
	}
	own := s.GetPrincipal() == lex.Clip(t.Command.GetPrincipal(), core.MaxPrincipal)
	if !ok || !own && !adminOfAll(t) {
		return nil, refusal.New(refusal.NotFound, "SESSION_NOT_FOUND", "session %q not found", c.GetSessionId()).
			With("session_id", lex.Ident(c.GetSessionId()))
	}
	if s.GetEndedAt() != nil && t.Sessions.Has(s.GetSessionId()) {
		return s, nil
	}
	s = proto.CloneOf(s)
	s.EndedAt, s.EndedBy = t.Now, lex.Clip(t.Command.GetPrincipal(), core.MaxPrincipal)
	if until := t.Now.AsTime().Add(keepEnded); s.GetKind() == KindAPI && until.After(s.GetExpiresAt().AsTime()) {
		s.ExpiresAt = timestamppb.New(until)
	}
	if t.Sessions.Has(s.GetSessionId()) {
		t.Sessions.Put(s)
	} else if s.GetExpiresAt().AsTime().After(t.Now.AsTime()) {
		putSession(t, s)
	}
	return s, nil
}

// adminOfAll reports whether a command is the cluster's own, or that of an admin.
func adminOfAll(t *core.Tx) bool {
	o := t.Command.GetOrigin()
	if o == nil {
		return true
	}
	own, ok := t.Tokens.Get(o.GetTokenId())
	return o.GetRole() == holdfastv1.Role_ADMIN && (!ok || own.GetToken().GetRole() == holdfastv1.Role_ADMIN)
}

// DropSessions deletes sessions that have expired. It keeps others, even if the proposer named
// them.
func DropSessions(t *core.Tx, c *internalv1.DropSessions) *refusal.Error {
	for _, id := range c.GetSessionIds() {
		if s, ok := t.Sessions.Get(id); ok && !s.GetExpiresAt().AsTime().After(t.Now.AsTime()) {
			t.Sessions.Delete(id)
		}
	}
	return nil
}

// Session returns the session of a person with an id.
func (v *View) Session(id string) (*holdfastv1.Session, bool) { return v.s.Sessions.Get(id) }

// Sessions returns the sessions of people with an id above after, by id.
func (v *View) Sessions(after string) iter.Seq[*holdfastv1.Session] {
	return v.s.Sessions.Ascend("", after)
}

// DueSessions returns the ids of at most limit sessions that have expired.
func (v *View) DueSessions(now time.Time, limit int) (ids []string) {
	for _, s := range v.s.Sessions.Scan(schema.SessionsByExpiry, "", "") {
		if len(ids) == limit || s.GetExpiresAt().AsTime().After(now) {
			break
		}
		ids = append(ids, s.GetSessionId())
	}
	return ids
}
