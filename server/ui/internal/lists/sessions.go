package lists

import (
	"context"

	"google.golang.org/grpc"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/ui/internal/display"
)

// sessions is the list of sessions of people. The service shows callers other than admins only
// their own.
func sessions() Kind {
	return Kind{
		Name: "sessions", Title: "Sessions", One: "session", Many: "sessions",
		Example: `state = active AND user = "user:alice*"`,
		Hints: []Hint{
			{"active", "state = active"},
			{"ended", "state = ended"},
			{"at the dashboard", "kind = dashboard"},
		},
		Create: "holdfast login",
		Note: "Sign-ins at the dashboard, and access tokens of identity providers. Admins see those of everybody, others " +
			"their own. To end all of one person: `holdfast session end --user PRINCIPAL`",
		Columns: []string{
			"Session", "User", "Kind", "State", "Signed in with", "From", "Peer", "Started", "Expires", "Ended by", "Action",
		},
		Read: func(ctx context.Context, c grpc.ClientConnInterface, q Query) (Part, error) {
			resp, err := holdfastv1.NewSessionServiceClient(c).ListSessions(ctx, &holdfastv1.ListSessionsRequest{
				Filter: q.Filter, PageSize: q.Size, PageToken: q.Page,
			})
			return Part{rowsOf(resp.GetSessions(), sessionRow), resp.GetNextPageToken()}, err
		},
	}
}

func sessionRow(s *holdfastv1.Session) Row {
	state, end := display.Badge(s.GetState(), ""), display.Cell{}
	if s.GetState() == "active" {
		state, end = display.Badge("active", "active"), display.To("End", display.EndSessionPath(s.GetSessionId()))
	}
	return Row{s.GetSessionId(), []display.Cell{
		display.ID(s.GetSessionId()),
		display.Text(s.GetPrincipal()),
		display.Text(s.GetKind()),
		state.And(display.When(s.GetEndedAt())),
		display.Text(s.GetMethod()),
		display.Text(s.GetSource()),
		display.Text(s.GetPeer()),
		display.When(s.GetStartedAt()),
		display.When(s.GetExpiresAt()),
		display.Text(s.GetEndedBy()),
		end,
	}}
}
