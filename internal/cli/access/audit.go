package access

import (
	"bufio"
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/manifest"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// auditLimit is the default number of listed events: the trail can hold 262,144.
const auditLimit = "100"

// Audit returns the commands of the audit trail.
func Audit(a *app.App) *cobra.Command {
	return app.Parent(&cobra.Command{
		Use:   "audit",
		Short: "Read the audit trail of changes and refused calls",
		Example: `  holdfast audit list --filter 'outcome != OK'
  holdfast audit verify
  holdfast audit export > audit.jsonl`,
	}, auditList(a), auditVerify(a), auditExport(a))
}

func auditList(a *app.App) *cobra.Command {
	cmd := output.ListCommand(a, output.Lister[*holdfastv1.AuditEvent]{
		Short: "List audit events, newest first",
		Example: `  holdfast audit list --limit 20
  holdfast audit list --filter 'principal = "user:alice" AND at > "2026-11-01T00:00:00Z"'
  holdfast audit list --filter 'resource = "machines/m-123*"'
  holdfast audit list --filter 'outcome = PERMISSION_DENIED' -o wide`,
		Kind: auditKind(), Plural: "audit events", Filter: "outcome != OK",
	})
	limit := cmd.Flags().Lookup("limit")
	limit.DefValue = auditLimit
	_ = limit.Value.Set(auditLimit) // it is a number
	return cmd
}

func auditExport(a *app.App) *cobra.Command {
	var from uint64
	cmd := &cobra.Command{
		Use: "export", Args: app.Exactly(),
		Short: "Export the audit trail as JSON lines, oldest first",
		Long: `Export the audit trail as JSON, one event per line, oldest first. 'audit verify -f' checks such a file.
The trail keeps the last 262144 events. To keep all of them, export regularly, each time from the last exported event.`,
		Example: `  holdfast audit export > audit.jsonl
  holdfast audit export --from 4712 >> audit.jsonl
  holdfast audit verify -f audit.jsonl`,
		RunE: a.Online(func(ctx context.Context, c *client.Client, _ []string) error {
			ctx, cancel := a.Patience(ctx, 0)
			defer cancel()
			out := bufio.NewWriter(a.Out)
			err := c.ExportAudit(ctx, from, func(e *holdfastv1.AuditEvent) error {
				raw, err := manifest.JSON(e)
				if err != nil {
					return err
				}
				_, err = out.Write(append(raw, '\n'))
				return err
			})
			if flushed := out.Flush(); err == nil {
				err = flushed
			}
			return app.Failed(err, "export audit events")
		}),
	}
	cmd.Flags().Uint64Var(&from, "from", 0, "start at this sequence number (0: the oldest that is kept)")
	return cmd
}

func auditKind() output.Kind[*holdfastv1.AuditEvent] {
	return output.Kind[*holdfastv1.AuditEvent]{
		Noun: "audit", List: "events",
		Name:   func(e *holdfastv1.AuditEvent) string { return app.Number(e.GetSequence()) },
		Header: []string{"SEQUENCE", "AT", "PRINCIPAL", "METHOD", "RESOURCE", "OUTCOME", "REASON"},
		Wide:   []string{"SOURCE", "PEER", "REQUEST", "TOKEN", "COUNT", "INDEX"},
		Row: func(e *holdfastv1.AuditEvent, _ time.Time) []any {
			outcome := render.T(e.GetOutcome(), render.Green)
			if e.GetOutcome() != "OK" {
				outcome = render.T(e.GetOutcome(), render.Red)
			}
			return []any{
				app.Number(e.GetSequence()), app.Stamp(e.GetAt()), e.GetPrincipal(), e.GetMethod(), e.GetResource(),
				outcome, e.GetReason(),
				e.GetSource(), e.GetPeer(), e.GetRequestId(), e.GetTokenId(), app.Number(e.GetCount()),
				app.Number(e.GetIndex()),
			}
		},
		Page: func(ctx context.Context, c *client.Client, q output.Query) ([]*holdfastv1.AuditEvent, string, error) {
			r, err := c.Audit().ListAuditEvents(ctx, &holdfastv1.ListAuditEventsRequest{Filter: q.Filter,
				PageSize: q.Size, PageToken: q.Token})
			return r.GetEvents(), r.GetNextPageToken(), err
		},
	}
}
