package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
	"github.com/holdfast-metal/holdfast/internal/filter"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func sessionCommand(a *app) *cobra.Command {
	return parent(&cobra.Command{
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

func sessionKind() kind[*holdfastv1.Session] {
	return kind[*holdfastv1.Session]{
		noun: "session", list: "sessions",
		name:   (*holdfastv1.Session).GetSessionId,
		header: []string{"SESSION", "USER", "KIND", "STATE", "FROM", "STARTED", "EXPIRES"},
		wide:   []string{"BY", "PEER", "ENDED", "ENDED BY"},
		row: func(s *holdfastv1.Session, now time.Time) []any {
			return []any{
				s.GetSessionId(), s.GetPrincipal(), s.GetKind(), sessionState(s.GetState()), s.GetSource(),
				age(now, s.GetStartedAt()), stamp(s.GetExpiresAt()),
				s.GetMethod(), s.GetPeer(), stamp(s.GetEndedAt()), s.GetEndedBy(),
			}
		},
		page: func(ctx context.Context, c *client.Client, q query) ([]*holdfastv1.Session, string, error) {
			r, err := c.Sessions().ListSessions(ctx, &holdfastv1.ListSessionsRequest{Filter: q.filter, PageSize: q.size,
				PageToken: q.token})
			return r.GetSessions(), r.GetNextPageToken(), err
		},
		offer: "state = active",
	}
}

func sessionState(s string) render.Text {
	if s == "active" {
		return render.T(s, render.Green)
	}
	return plain(s)
}

func sessionList(a *app) *cobra.Command {
	return listCommand(a, lister[*holdfastv1.Session]{
		short: "List sessions, including ended ones until they would have expired",
		example: `  holdfast session list
  holdfast session list --filter 'state = active AND user = "user:alice*"'`,
		kind: sessionKind(), filter: "state = active",
	})
}

func sessionEnd(a *app) *cobra.Command {
	var user string
	cmd := &cobra.Command{
		Use: "end SESSION... | --user PRINCIPAL", DisableFlagsInUseLine: true, Args: cobra.ArbitraryArgs,
		ValidArgsFunction: a.complete(sessionKind().names),
		Short:             "End sessions",
		Long: `End sessions: no peer accepts their cookies and access tokens any more. The person can sign in again, unless the identity
provider refuses it.`,
		Example: `  holdfast session end oidc-5f2b6c1e9a0d4c3b8a7f6e5d
  holdfast session end --user user:alice@sso.example.com`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if (len(args) == 0) == (user == "") {
				return usagef("%s: give the ids of sessions, or --user: usage: %s", cmd.CommandPath(), cmd.UseLine())
			}
			return a.online(func(ctx context.Context, c *client.Client, ids []string) error {
				if user != "" {
					all, err := sessionKind().all(ctx, c, filter.Equals("principal", user)+" AND state = active", 0)
					if err != nil {
						return failed(err, "list the sessions of %s", user)
					}
					if ids = mapped(all, sessionKind().name); len(ids) == 0 {
						a.note("%s has no active session", user)
					}
				}
				for _, id := range ids {
					s, err := c.Sessions().EndSession(ctx, &holdfastv1.EndSessionRequest{SessionId: id})
					if err != nil {
						return failed(err, "end session %s", id)
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
