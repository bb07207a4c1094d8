package access

import (
	"context"
	"iter"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/internal/filter"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/internal/edge"
	"github.com/holdfast-metal/holdfast/server/internal/page"
	"github.com/holdfast-metal/holdfast/server/internal/request"
)

// Sessions implements SessionService (docs/security.md). The gate notes sessions, and the FSM
// decides who may end one.
type Sessions struct {
	holdfastv1.UnimplementedSessionServiceServer
	*edge.Peer
}

// NewSessions returns the service of a peer.
func NewSessions(peer *edge.Peer) *Sessions { return &Sessions{Peer: peer} }

// ListSessions lists sessions by id: those of everybody for admins, else the caller's own.
func (s *Sessions) ListSessions(
	ctx context.Context, r *holdfastv1.ListSessionsRequest,
) (*holdfastv1.ListSessionsResponse, error) {
	f, err := request.Filter(sessionFilter, r.GetFilter())
	if err != nil {
		return nil, err
	}
	p, v, err := page.Open(ctx, s.Cluster.View, r, "sessions", r.GetFilter())
	if err != nil {
		return nil, err
	}
	who := auth.From(ctx)
	rows := page.Keyed(sessionStates(v.Sessions(p.After), s.Time()), (*holdfastv1.Session).GetSessionId)
	resp := &holdfastv1.ListSessionsResponse{}
	resp.Sessions, resp.NextPageToken, err = page.Collect(ctx, p, rows, func(s *holdfastv1.Session) bool {
		return (who.GetRole() == holdfastv1.Role_ADMIN || s.GetPrincipal() == who.GetPrincipal()) && f.Match(s)
	})
	return resp, err
}

// EndSession ends a session.
func (s *Sessions) EndSession(ctx context.Context, r *holdfastv1.EndSessionRequest) (*holdfastv1.Session, error) {
	if err := request.Required("session_id", r.GetSessionId()); err != nil {
		return nil, err
	}
	c := auth.Command(ctx)
	end := &internalv1.EndSession{SessionId: r.GetSessionId()}
	if own := auth.CallerFrom(ctx).Session(); own.GetSessionId() == r.GetSessionId() {
		end.Session = own // perhaps no peer has noted it yet
	}
	c.Op = &internalv1.Command_EndSession{EndSession: end}
	ended, err := edge.Apply[*holdfastv1.Session](ctx, s.Cluster, c)
	if err != nil {
		return nil, err
	}
	return withSessionState(ended, s.Time()), nil
}

// withSessionState returns a copy of a session with its state, which is computed on read.
func withSessionState(s *holdfastv1.Session, now time.Time) *holdfastv1.Session {
	s = proto.CloneOf(s)
	switch {
	case s.GetEndedAt() != nil:
		s.State = "ended"
	case now.Before(s.GetExpiresAt().AsTime()):
		s.State = "active"
	default:
		s.State = "expired"
	}
	return s
}

// sessionStates returns sessions with their states.
func sessionStates(all iter.Seq[*holdfastv1.Session], now time.Time) iter.Seq[*holdfastv1.Session] {
	return func(yield func(*holdfastv1.Session) bool) {
		for s := range all {
			if !yield(withSessionState(s, now)) {
				return
			}
		}
	}
}

// sessionFilter returns the fields that filters of sessions can use.
func sessionFilter() *filter.Schema {
	return &filter.Schema{
		Message: (*holdfastv1.Session)(nil).ProtoReflect().Descriptor(),
		Aliases: map[string]string{"user": "principal", "started": "started_at", "expires": "expires_at"},
	}
}
