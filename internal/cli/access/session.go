package access

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
	"github.com/holdfast-metal/holdfast/internal/filter"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Session returns the commands of sessions.
func Session(a *app.App) *cobra.Command {
	return app.Parent(&cobra.Command{
		Use: "session", Aliases: []string{"sessions"},
		Short: "List and end the sessions of people",
		Long: `List and end the sessions of people: sign-ins at the dashboard, and access tokens of an identity provider, as holdfast login
gets them. Admins see and end those of everybody, others their own. Tokens of this cluster in programs are no sessions: see
holdfast token revoke.`,
		Example: `  holdfast session list
  holdfast session end ui-JBSWY3DPEHPK3PXPJBSWY3DPEH
  holdfast session end --user user:alice@sso.example.com`,
	}, sessionList(a), sessionEnd(a))
}

func sessionKind() output.Kind[*holdfastv1.Session] {
	return output.Kind[*holdfastv1.Session]{
		Noun: "session", List: "sessions",
		Name:   (*holdfastv1.Session).GetSessionId,
		Header: []string{"SESSION", "USER", "KIND", "STATE", "FROM", "STARTED", "EXPIRES"},
		Wide:   []string{"BY", "PEER", "ENDED", "ENDED BY"},
		Row: func(s *holdfastv1.Session, now time.Time) []any {
			return []any{
				s.GetSessionId(), s.GetPrincipal(), s.GetKind(), sessionState(s.GetState()), s.GetSource(),
				app.Age(now, s.GetStartedAt()), app.Stamp(s.GetExpiresAt()),
				s.GetMethod(), s.GetPeer(), app.Stamp(s.GetEndedAt()), s.GetEndedBy(),
			}
		},
		Page: func(ctx context.Context, c *client.Client, q output.Query) ([]*holdfastv1.Session, string, error) {
			r, err := c.Sessions().ListSessions(ctx, &holdfastv1.ListSessionsRequest{Filter: q.Filter, PageSize: q.Size,
				PageToken: q.Token})
			return r.GetSessions(), r.GetNextPageToken(), err
		},
		Offer: "state = active",
	}
}

func sessionState(s string) render.Text {
	if s == "active" {
		return render.T(s, render.Green)
	}
	return app.Plain(s)
}

func sessionList(a *app.App) *cobra.Command {
	return output.ListCommand(a, output.Lister[*holdfastv1.Session]{
		Short: "List sessions, including ended ones until they would have expired",
		Example: `  holdfast session list
  holdfast session list --filter 'state = active AND user = "user:alice*"'`,
		Kind: sessionKind(), Filter: "state = active",
	})
}

func sessionEnd(a *app.App) *cobra.Command {
	var user string
	cmd := &cobra.Command{
		Use: "end SESSION... | --user PRINCIPAL", DisableFlagsInUseLine: true, Args: cobra.ArbitraryArgs,
		ValidArgsFunction: a.Complete(sessionKind().Names),
		Short:             "End sessions",
		Long: `End sessions: no peer accepts their cookies and access tokens any more. The person can sign in again, unless the identity
provider refuses it.`,
		Example: `  holdfast session end oidc-5f2b6c1e9a0d4c3b8a7f6e5d
  holdfast session end --user user:alice@sso.example.com`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if (len(args) == 0) == (user == "") {
				return app.Usagef("%s: give the ids of sessions, or --user: usage: %s", cmd.CommandPath(), cmd.UseLine())
			}
			return a.Online(func(ctx context.Context, c *client.Client, ids []string) error {
				if user != "" {
					all, err := sessionKind().All(ctx, c, filter.Equals("principal", user)+" AND state = active", 0)
					if err != nil {
						return app.Failed(err, "list the sessions of %s", user)
					}
					if ids = app.Mapped(all, sessionKind().Name); len(ids) == 0 {
						a.Note("%s has no active session", user)
					}
				}
				for _, id := range ids {
					s, err := c.Sessions().EndSession(ctx, &holdfastv1.EndSessionRequest{SessionId: id})
					if err != nil {
						return app.Failed(err, "end session %s", id)
					}
					if _, err := fmt.Fprintf(a.Out, "session %s of %s has ended\n", s.GetSessionId(), s.GetPrincipal()); err != nil {
						return err
					}
				}
				return nil
			})(cmd, args)
		},
	}
	cmd.Flags().StringVar(&user, "user", "", "end all active sessions of this principal, such as user:alice@HOST")
	return cmd
}
