package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func (a *app) install() *cobra.Command {
	return parent(&cobra.Command{
		Use: "install", Aliases: []string{"installs"},
		Short: "Show the progress of machines that are being installed",
		Long: `Show install sessions, the progress of machines that are being installed. The install step of a run opens the session of its
machine, which then moves through waiting-for-pxe, booted-ipxe, installer-started, writing, complete and booted-disk, or to
failed. A session has the name of its machine, and a machine has one session at a time.`,
		Example: `  holdfast install list
  holdfast install get m-123
  holdfast install watch m-123`,
	}, a.installList(), a.installGet(), a.installWatch())
}

func installKind() kind[*holdfastv1.Install] {
	return kind[*holdfastv1.Install]{
		noun: "install", list: "installs",
		name:   (*holdfastv1.Install).GetMachineId,
		header: []string{"MACHINE", "STAGE", "DONE", "IMAGE", "RUN", "ATTEMPT", "SINCE", "SEEN"},
		wide:   []string{"DISK", "ADDRESS", "BOOTS", "DETAIL"},
		row: func(i *holdfastv1.Install, now time.Time, wide bool) []render.Text {
			row := []render.Text{plain(i.GetMachineId()), installStage(i), plain(fmt.Sprintf("%d %%",
				i.GetProgress())), plain(first(i.GetImage(), "(wipe only)")), plain(i.GetRunId()),
				plain(fmt.Sprint(i.GetAttempt())), plain(render.Ago(now,
					at(i.GetStageSince()))), plain(render.Ago(now, at(i.GetLastSeenAt())))}
			if wide {
				row = append(row, plain(i.GetDisk()), plain(i.GetIpAddress()), plain(fmt.Sprint(i.GetBoots())),
					plain(first(i.GetError(), i.GetNote(), i.GetDetail())))
			}
			return row
		},
	}
}

// installStage returns the name of a stage, and reports whether it is final.
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

func (a *app) installList() *cobra.Command {
	all := false
	cmd := listCommand(a, lister[*holdfastv1.Install]{
		short: "List install sessions that are open, by machine",
		example: "  holdfast install list\n  holdfast install list --all --sort-by -opened_at\n" +
			"  holdfast install list -o wide",
		kind: installKind(), plural: "installs",
		empty: "note: nothing is being installed: --all lists sessions that are over, too",
		page: func(ctx context.Context, c *client.Client, q query) ([]*holdfastv1.Install, string, error) {
			r, err := c.Installs().ListInstalls(ctx, &holdfastv1.ListInstallsRequest{PageSize: q.size,
				PageToken: q.token, All: all})
			return r.GetInstalls(), r.GetNextPageToken(), err
		},
	})
	cmd.Flags().BoolVar(&all, "all", false, "also ended sessions: the last one of each machine")
	return cmd
}

func (a *app) installGet() *cobra.Command {
	return getCommand(a, getter[*holdfastv1.Install]{
		short:   "Show a machine's install session, the last one when none is open",
		example: "  holdfast install get m-123\n  holdfast install get m-123 -o jsonpath=host_keys",
		arg:     "MACHINE", kind: installKind(), ids: installMachines, get: getInstall,
		more: func(i *holdfastv1.Install) []*render.Table { return []*render.Table{stagesOf(i)} },
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
		t.Row(plain(s.name), plain(s.at.UTC().Format(time.RFC3339)), plain(after))
		before = s.at
	}
	return t
}

func installMachines(ctx context.Context, c *client.Client) []string {
	r, err := c.Installs().ListInstalls(ctx, &holdfastv1.ListInstallsRequest{PageSize: pageSize, All: true})
	if err != nil {
		return nil
	}
	return ids(r.GetInstalls(), (*holdfastv1.Install).GetMachineId)
}
