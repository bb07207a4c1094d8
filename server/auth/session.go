package auth

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// The kinds of sessions.
const (
	KindDashboard = "dashboard"
	KindAPI       = "api" // access tokens of an issuer, in calls
)

const (
	maxNoted   = 16384 // sessions that this peer remembers to have noted
	maxWaiting = 1024  // sessions that wait to be noted; others are noted at their next call
)

// Cookie is the content of a session cookie.
type Cookie struct {
	ID      string // of the session
	Token   string
	Expires time.Time
}

// sessionOf sets the session of a caller: that of its cookie, or that of its access token.
func (g *Gate) sessionOf(c *Caller, cookie *Cookie, tokens string) {
	s := &holdfastv1.Session{
		SessionId: tokens, Kind: KindAPI, Principal: c.Identity.GetPrincipal(), Method: c.Identity.GetMethod(),
		TokenId: c.Identity.GetTokenId(), Source: c.Source, Peer: c.Peer, StartedAt: timestamppb.New(g.now()),
		ExpiresAt: timestamppb.New(c.until),
	}
	switch {
	case cookie != nil:
		s.SessionId, s.Kind, s.ExpiresAt = cookie.ID, KindDashboard, timestamppb.New(cookie.Expires)
	case tokens == "":
		return
	}
	c.session = s
	g.notes.see(s)
}

// Session returns the session of the caller, or nil: agents, services and programs with tokens or
// certificates have none.
func (c *Caller) Session() *holdfastv1.Session {
	if c == nil {
		return nil
	}
	return c.session
}

// sessionGood returns an error if the session of a caller was ended.
func (g *Gate) sessionGood(c *Caller) *Error {
	if c.session == nil || g.deps.Session == nil {
		return nil
	}
	if s, ok := g.deps.Session(c.session.GetSessionId()); ok && s.GetEndedAt() != nil {
		return unauthenticated(fsm.ReasonSessionEnded, "the session was ended at %s: sign in again",
			stamp(s.GetEndedAt().AsTime()))
	}
	return nil
}

// notes buffers sessions that this peer has seen for the first time, and writes them to the
// state, several in one command.
type notes struct {
	write func(context.Context, *internalv1.NoteSessions) error
	log   *slog.Logger
	seen  *lru.Cache[string, time.Time] // the end of each session that was noted

	mu      sync.Mutex
	waiting []*holdfastv1.Session
}

func newNotes(write func(context.Context, *internalv1.NoteSessions) error, log *slog.Logger) *notes {
	return &notes{write: write, log: log, seen: newLRU[time.Time](maxNoted)}
}

// see notes a session unless this peer has noted it with the same end.
func (n *notes) see(s *holdfastv1.Session) {
	ends := s.GetExpiresAt().AsTime()
	if was, ok := n.seen.Get(s.GetSessionId()); n.write == nil || ok && !ends.After(was) {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.waiting) < maxWaiting {
		n.waiting = append(n.waiting, s)
		n.seen.Add(s.GetSessionId(), ends)
	}
}

// flush writes the sessions that wait. After an error they are noted at their next call.
func (n *notes) flush(ctx context.Context) error {
	for {
		n.mu.Lock()
		some := n.waiting[:min(len(n.waiting), fsm.MaxSessions)]
		n.waiting = n.waiting[len(some):]
		n.mu.Unlock()
		if len(some) == 0 {
			return nil
		}
		in, cancel := context.WithTimeout(ctx, reportTimeout)
		err := n.write(in, &internalv1.NoteSessions{Sessions: some})
		cancel()
		if err != nil {
			for _, s := range some {
				n.seen.Remove(s.GetSessionId())
			}
			return fmt.Errorf("note %d sessions: %w", len(some), err)
		}
	}
}
