package console

import (
	"context"
	"fmt"

	"google.golang.org/grpc"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/filter"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/internal/edge"
	"github.com/holdfast-metal/holdfast/server/internal/page"
	"github.com/holdfast-metal/holdfast/server/internal/request"
	"github.com/holdfast-metal/holdfast/server/internal/scope"
)

// ListConsoleSessions lists the console sessions of machines that the caller may see, newest first.
func (s *Service) ListConsoleSessions(
	ctx context.Context, r *holdfastv1.ListConsoleSessionsRequest,
) (*holdfastv1.ListConsoleSessionsResponse, error) {
	f, err := request.Filter(sessionFilter, r.GetFilter())
	if err != nil {
		return nil, err
	}
	p, v, err := page.Open(ctx, s.Cluster.View, r, "consoles", r.GetFilter())
	if err != nil {
		return nil, err
	}
	sees := scope.SeesConsoles(auth.From(ctx), v)
	rows := page.Keyed(v.ConsoleSessions(p.After), (*holdfastv1.ConsoleSession).GetSessionId)
	resp := &holdfastv1.ListConsoleSessionsResponse{}
	resp.Sessions, resp.NextPageToken, err = page.Collect(ctx, p, rows, func(s *holdfastv1.ConsoleSession) bool {
		return sees(s) && f.Match(s)
	})
	return resp, err
}

// ReplayConsole streams the recorded output of a console session.
func (s *Service) ReplayConsole(
	r *holdfastv1.ReplayConsoleRequest, stream grpc.ServerStreamingServer[holdfastv1.ConsoleOutput],
) error {
	ctx := stream.Context()
	v, err := request.View(ctx, s.Cluster.View, "session_id", r.GetSessionId())
	if err != nil {
		return err
	}
	session, ok := v.ConsoleSession(r.GetSessionId())
	switch {
	case !ok || !scope.SeesConsoles(auth.From(ctx), v)(session):
		return request.NotFound("CONSOLE_SESSION_NOT_FOUND", "console session", r.GetSessionId())
	case !session.GetRecorded():
		return notRecorded("console session %s was not recorded: set record_consoles in the configuration of the peers",
			session.GetSessionId())
	case session.GetRecordedBytes() == 0 && session.GetDetachedAt() != nil:
		return notRecorded("console session %s has no output, or it made room for newer records", session.GetSessionId())
	}
	for out := range v.ConsoleOutput(session.GetSessionId()) {
		if err := edge.Ended(ctx, s.Draining); err != nil {
			return err
		}
		if err := stream.Send(out); err != nil {
			return err
		}
	}
	return nil
}

func notRecorded(format, id string) error {
	return &fsm.Error{
		Code: fsm.FailedPrecondition, Reason: "NOT_RECORDED", Message: fmt.Sprintf(format, id),
		Meta: map[string]string{"session_id": id},
	}
}

// sessionFilter returns the fields that filters of console sessions can use.
func sessionFilter() *filter.Schema {
	return &filter.Schema{
		Message: (*holdfastv1.ConsoleSession)(nil).ProtoReflect().Descriptor(),
		Aliases: map[string]string{"user": "principal", "machine": "machine_id", "run": "run_id"},
		Hidden:  []string{"keep_for"},
	}
}
