package machine

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	"github.com/holdfast-metal/holdfast/internal/wait"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Console returns the commands of recorded consoles.
func Console(a *app.App) *cobra.Command {
	return app.Parent(&cobra.Command{
		Use: "console", Aliases: []string{"consoles"},
		Short: "List and replay console sessions",
		Long: `List and replay console sessions: who was attached to the console of a machine, from where, to type or to read. Attach with
holdfast machine console.`,
		Example: `  holdfast console list --filter 'machine_id = m-123'
  holdfast console replay con-019b2f4c7d1-5e6f7a`,
	}, consoleList(a), consoleReplay(a))
}

func consoleKind() output.Kind[*holdfastv1.ConsoleSession] {
	return output.Kind[*holdfastv1.ConsoleSession]{
		Noun: "console session", Arg: "SESSION", List: "sessions",
		Name:   (*holdfastv1.ConsoleSession).GetSessionId,
		Header: []string{"SESSION", "MACHINE", "USER", "FROM", "ACCESS", "ATTACHED", "DETACHED", "RECORD"},
		Wide:   []string{"RUN", "PEER", "TYPED", "END", "KEPT UNTIL"},
		Row: func(s *holdfastv1.ConsoleSession, now time.Time) []any {
			may := "type"
			if s.GetReadOnly() {
				may = "read"
			}
			record := ""
			if s.GetRecordedBytes() > 0 {
				record = strconv.FormatInt(s.GetRecordedBytes(), 10)
			}
			return []any{
				s.GetSessionId(), s.GetMachineId(), s.GetPrincipal(), s.GetSource(), may,
				app.Age(now, s.GetAttachedAt()), app.Age(now, s.GetDetachedAt()), record,
				s.GetRunId(), s.GetPeer(), strconv.FormatInt(s.GetTypedBytes(), 10), s.GetEnd(), app.Stamp(s.GetKeepUntil()),
			}
		},
		Page: func(ctx context.Context, c *client.Client, q output.Query) ([]*holdfastv1.ConsoleSession, string, error) {
			r, err := c.Consoles().ListConsoleSessions(ctx, &holdfastv1.ListConsoleSessionsRequest{Filter: q.Filter,
				PageSize: q.Size, PageToken: q.Token})
			return r.GetSessions(), r.GetNextPageToken(), err
		},
	}
}

func consoleList(a *app.App) *cobra.Command {
	return output.ListCommand(a, output.Lister[*holdfastv1.ConsoleSession]{
		Short: "List console sessions, newest first",
		Example: `  holdfast console list
  holdfast console list --filter 'machine_id = m-123 AND read_only = false' -o wide`,
		Kind: consoleKind(), Filter: "machine_id = m-123",
	})
}

// longPause bounds the pauses of a replay.
const longPause = 2 * time.Second

func consoleReplay(a *app.App) *cobra.Command {
	var raw, timed bool
	cmd := &cobra.Command{
		Use: "replay SESSION", Args: app.Exactly("SESSION"), ValidArgsFunction: a.Complete(consoleKind().Names),
		Short: "Print the recorded output of a console session",
		Long: `Print the recorded output of a console session. Peers record it if record_consoles is set. Input is not recorded, unless the
machine has echoed it. Without --raw, control characters are replaced and terminal sequences left out.`,
		Example: `  holdfast console replay con-019b2f4c7d1-5e6f7a
  holdfast console replay con-019b2f4c7d1-5e6f7a --timed --raw`,
		RunE: a.Online(func(ctx context.Context, c *client.Client, args []string) error {
			ctx, cancel := a.Patience(ctx, 0)
			defer cancel()
			out, last := a.Foreign(raw), time.Time{}
			err := c.ReplayConsole(ctx, args[0], func(o *holdfastv1.ConsoleOutput) error {
				at := o.GetAt().AsTime()
				if timed && !last.IsZero() {
					if err := wait.Sleep(ctx, max(0, min(at.Sub(last), longPause))); err != nil {
						return err
					}
				}
				last = at
				_, err := out.Write(o.GetData())
				return err
			})
			return app.Failed(err, "replay console session %s", args[0])
		}),
	}
	cmd.Flags().BoolVar(&raw, "raw", false, "print the bytes of the machine, with its control sequences")
	cmd.Flags().BoolVar(&timed, "timed", false, "print it as fast as it appeared, with pauses of at most 2 s")
	return cmd
}
