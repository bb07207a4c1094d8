package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func installCommand(a *app) *cobra.Command {
	return parent(&cobra.Command{
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

func installKind() kind[*holdfastv1.Install] {
	return kind[*holdfastv1.Install]{
		noun: "install", arg: "MACHINE", list: "installs",
		name:   (*holdfastv1.Install).GetMachineId,
		header: []string{"MACHINE", "STAGE", "DONE", "IMAGE", "RUN", "ATTEMPT", "SINCE", "SEEN"},
		wide:   []string{"DISK", "ADDRESS", "BOOTS", "DETAIL"},
		row: func(i *holdfastv1.Install, now time.Time) []any {
			return []any{
				i.GetMachineId(), installStage(i), fmt.Sprintf("%d %%", i.GetProgress()),
				cmp.Or(i.GetImage(), "(wipe only)"), i.GetRunId(), i.GetAttempt(),
				age(now, i.GetStageSince()), age(now, i.GetLastSeenAt()),
				i.GetDisk(), i.GetIpAddress(), i.GetBoots(), cmp.Or(i.GetError(), i.GetNote(), i.GetDetail()),
			}
		},
		page: func(ctx context.Context, c *client.Client, q query) ([]*holdfastv1.Install, string, error) {
			return pageOfInstalls(ctx, c, q, true)
		},
		get: getInstall,
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

func installList(a *app) *cobra.Command {
	all := false
	k := installKind()
	k.page = func(ctx context.Context, c *client.Client, q query) ([]*holdfastv1.Install, string, error) {
		return pageOfInstalls(ctx, c, q, all)
	}
	cmd := listCommand(a, lister[*holdfastv1.Install]{
		short: "List open install sessions by machine",
		example: "  holdfast install list\n  holdfast install list --all --sort-by -opened_at\n" +
			"  holdfast install list -o wide",
		kind:  k,
		empty: "note: nothing is being installed: --all lists sessions that are over, too",
	})
	cmd.Flags().BoolVar(&all, "all", false, "also ended sessions: the last one of each machine")
	return cmd
}

func pageOfInstalls(
	ctx context.Context, c *client.Client, q query, all bool,
) ([]*holdfastv1.Install, string, error) {
	r, err := c.Installs().ListInstalls(ctx, &holdfastv1.ListInstallsRequest{PageSize: q.size, PageToken: q.token,
		All: all})
	return r.GetInstalls(), r.GetNextPageToken(), err
}

func installGet(a *app) *cobra.Command {
	return getCommand(a, getter[*holdfastv1.Install]{
		short:   "Show a machine's install session, or the last one if none is open",
		example: "  holdfast install get m-123\n  holdfast install get m-123 -o jsonpath=host_keys",
		kind:    installKind(),
		more:    func(i *holdfastv1.Install) []*render.Table { return []*render.Table{stagesOf(i)} },
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
		{"opened", at(i.GetOpenedAt())}, {"booted-ipxe", at(i.GetBootedAt())}, {"installer-started", at(i.GetStartedAt())},
		{"complete", at(i.GetCompletedAt())}, {"booted-disk", at(i.GetDiskBootedAt())}, {"over", at(i.GetClosedAt())},
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
