package install

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Command returns the commands of installs.
func Command(a *app.App) *cobra.Command {
	return app.Parent(&cobra.Command{
		Use: "install", Aliases: []string{"installs"},
		Short: "Show the progress of machines that are being installed",
		Long: `Show install sessions, the progress of machines that are being installed. The install step of a run opens the session of its
machine, which then moves through waiting-for-pxe, booted-ipxe, installer-started, writing, complete and booted-disk, or to
failed. A session has the name of its machine, and a machine has one session at a time.`,
		Example: `  holdfast install list
  holdfast install get m-123
  holdfast install watch m-123`,
	}, installList(a), installGet(a), installWatch(a))
}

func installKind() output.Kind[*holdfastv1.Install] {
	return output.Kind[*holdfastv1.Install]{
		Noun: "install", Arg: "MACHINE", List: "installs",
		Name:   (*holdfastv1.Install).GetMachineId,
		Header: []string{"MACHINE", "STAGE", "DONE", "IMAGE", "RUN", "ATTEMPT", "SINCE", "SEEN"},
		Wide:   []string{"DISK", "ADDRESS", "BOOTS", "DETAIL"},
		Row: func(i *holdfastv1.Install, now time.Time) []any {
			return []any{
				i.GetMachineId(), installStage(i), fmt.Sprintf("%d %%", i.GetProgress()),
				cmp.Or(i.GetImage(), "(wipe only)"), i.GetRunId(), i.GetAttempt(),
				app.Age(now, i.GetStageSince()), app.Age(now, i.GetLastSeenAt()),
				i.GetDisk(), i.GetIpAddress(), i.GetBoots(), cmp.Or(i.GetError(), i.GetNote(), i.GetDetail()),
			}
		},
		Page: func(ctx context.Context, c *client.Client, q output.Query) ([]*holdfastv1.Install, string, error) {
			return pageOfInstalls(ctx, c, q, true)
		},
		Get: getInstall,
	}
}

// installStage returns the name of a stage, in the color of its outcome.
func installStage(i *holdfastv1.Install) render.Text {
	name, style := strings.ReplaceAll(strings.ToLower(i.GetStage().String()), "_", "-"), render.Plain
	switch {
	case i.GetStage() == holdfastv1.Install_FAILED:
		style = render.Red
	case i.GetStage() == holdfastv1.Install_BOOTED_DISK:
		style = render.Green
	case i.GetClosedAt() != nil:
		name += " (over)"
		style = render.Faint
	}
	return render.T(name, style)
}

func installList(a *app.App) *cobra.Command {
	all := false
	k := installKind()
	k.Page = func(ctx context.Context, c *client.Client, q output.Query) ([]*holdfastv1.Install, string, error) {
		return pageOfInstalls(ctx, c, q, all)
	}
	cmd := output.ListCommand(a, output.Lister[*holdfastv1.Install]{
		Short: "List open install sessions by machine",
		Example: "  holdfast install list\n  holdfast install list --all --sort-by -opened_at\n" +
			"  holdfast install list -o wide",
		Kind:  k,
		Empty: "note: nothing is being installed: --all lists sessions that are over, too",
	})
	cmd.Flags().BoolVar(&all, "all", false, "also ended sessions: the last one of each machine")
	return cmd
}

func pageOfInstalls(
	ctx context.Context, c *client.Client, q output.Query, all bool,
) ([]*holdfastv1.Install, string, error) {
	r, err := c.Installs().ListInstalls(ctx, &holdfastv1.ListInstallsRequest{PageSize: q.Size, PageToken: q.Token,
		All: all})
	return r.GetInstalls(), r.GetNextPageToken(), err
}

func installGet(a *app.App) *cobra.Command {
	return output.GetCommand(a, output.Getter[*holdfastv1.Install]{
		Short:   "Show a machine's install session, or the last one if none is open",
		Example: "  holdfast install get m-123\n  holdfast install get m-123 -o jsonpath=host_keys",
		Kind:    installKind(),
		More:    func(i *holdfastv1.Install) []*render.Table { return []*render.Table{stagesOf(i)} },
	})
}

func getInstall(ctx context.Context, c *client.Client, id string) (*holdfastv1.Install, error) {
	return c.Installs().GetInstall(ctx, &holdfastv1.GetInstallRequest{MachineId: id})
}

// stagesOf lists the time of each stage and its distance from the one before.
func stagesOf(i *holdfastv1.Install) *render.Table {
	t := render.NewTable("STAGE", "AT", "AFTER")
	var before time.Time
	for _, s := range []struct {
		name string
		at   time.Time
	}{
		{"opened", app.At(i.GetOpenedAt())}, {"booted-ipxe", app.At(i.GetBootedAt())},
		{"installer-started", app.At(i.GetStartedAt())},
		{"complete", app.At(i.GetCompletedAt())}, {"booted-disk", app.At(i.GetDiskBootedAt())},
		{"over", app.At(i.GetClosedAt())},
	} {
		if s.at.IsZero() {
			continue
		}
		if s.name == "complete" && i.GetStage() == holdfastv1.Install_FAILED {
			s.name = "failed: " + i.GetError()
		}
		after := ""
		if !before.IsZero() {
			after = s.at.Sub(before).Round(100 * time.Millisecond).String()
		}
		t.Row(s.name, s.at.UTC().Format(time.RFC3339), after)
		before = s.at
	}
	return t
}
