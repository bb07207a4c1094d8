package operator

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/kinds"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	"github.com/holdfast-metal/holdfast/internal/cli/prompt"
	"github.com/holdfast-metal/holdfast/internal/describe"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func snapshotRestore(a *app.App) *cobra.Command {
	r := &holdfastv1.RestoreSnapshotRequest{}
	var ok prompt.Consent
	cmd := &cobra.Command{
		Use: "restore FILE", Args: app.Exactly("FILE"),
		Short: "Restore the state from a snapshot file",
		Long: `Restore the state of the running cluster from a snapshot file, on all peers at once. In a new cluster this is a bootstrap from a backup.

If the snapshot is of this cluster, its peers, epoch, tokens and audit trail are kept, so revoked tokens stay revoked. Runs that were
active in the snapshot fail with the reason Restored, and their machines need an operator. Everything else is as in the snapshot:
later registrations, changes and runs are gone.

The command asks for confirmation: the id of the cluster. Without a terminal it requires --yes. --dry-run shows the snapshot and
the state that it would replace, and fails if the restore would be refused.`,
		Example: `  holdfast operator snapshot restore holdfast.snap
  holdfast operator snapshot restore holdfast.snap --dry-run
  holdfast operator snapshot restore holdfast.snap --abandon-runs`,
	}
	cmd.RunE = a.Online(func(ctx context.Context, c *client.Client, args []string) error {
		data, err := readSnapshot(a, args[0])
		if err != nil {
			return fmt.Errorf("read snapshot file: %w", err)
		}
		// A damaged file is not sent.
		if err := fsm.SumBackup(data); err != nil {
			return fmt.Errorf("%s: %w", args[0], err)
		}
		if err := allowRestore(ctx, a, c, cmd.CommandPath(), ok, r, data); err != nil || ok.DryRun {
			return err
		}
		ctx, cancel := a.Patience(ctx, 0)
		defer cancel()
		return restoreSnapshot(ctx, a, c, r, data)
	})
	ok.Register(cmd, "show the snapshot and the state that it would replace, and restore nothing")
	cmd.Flags().BoolVar(&r.AbandonRuns, "abandon-runs", false,
		"restore even if runs are active: they end, and their machines need an operator")
	cmd.Flags().BoolVar(&r.OtherCluster, "other-cluster", false,
		"restore a snapshot of another cluster into a cluster that is not empty")
	cmd.Flags().BoolVar(&r.WithoutKeys, "without-keys", false, "restore even if the leader lacks keys of its secrets")
	return cmd
}

// restoreTimeout is the default time limit of a restore, the same as that of the peers. They
// continue if the caller leaves earlier, and the caller would not learn the outcome.
const restoreTimeout = 30 * time.Minute

// uploads is the maximum number of uploads of a restore.
const uploads = 10

// restoreSnapshot sends a snapshot file to the cluster and restores it. A new leader has no chunks
// of an earlier upload and refuses the restore before it changes anything, so the upload starts
// again. It does not start again under the same leader: then another operator has started a
// restore, and the two would delete each other's chunks.
func restoreSnapshot(
	ctx context.Context, a *app.App, c *client.Client, r *holdfastv1.RestoreSnapshotRequest, data []byte,
) error {
	if !a.TimeoutGiven() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, restoreTimeout)
		defer cancel()
	}
	term, err := leaderTerm(ctx, c)
	if err != nil {
		return err
	}
	for n := 1; ; n++ {
		out, err := uploadSnapshot(ctx, c, r, data)
		if err == nil {
			return printRestored(a, out)
		}
		if n == uploads || client.Reason(err) != fsm.ReasonStageGone {
			return err
		}
		now, statusErr := leaderTerm(ctx, c)
		if statusErr != nil || now == term {
			return err
		}
		a.Note("the leader changed before the restore began: sending the file again")
		term = now
	}
}

// uploadSnapshot sends a snapshot file under an id of its own and restores it.
func uploadSnapshot(ctx context.Context, c *client.Client, r *holdfastv1.RestoreSnapshotRequest, data []byte,
) (*holdfastv1.RestoreSnapshotResponse, error) {
	r.RestoreId = uuid.NewString()
	var err error
	if r.Chunks, err = stage(ctx, c, r.GetRestoreId(), data); err != nil {
		return nil, err
	}
	out, err := c.Operator().RestoreSnapshot(ctx, r)
	return out, app.Failed(err, "restore snapshot")
}

// leaderTerm returns the Raft term of the present leader.
func leaderTerm(ctx context.Context, c *client.Client) (uint64, error) {
	s, err := kinds.GetClusterStatus(ctx, c)
	if err != nil {
		return 0, err
	}
	return s.GetTerm(), nil
}

func printRestored(a *app.App, r *holdfastv1.RestoreSnapshotResponse) error {
	_, err := fmt.Fprintf(a.Out, "restored the state of %s (cluster %s, index %d): %s, %s\n",
		r.GetTakenAt().AsTime().UTC().Format(time.RFC3339), r.GetClusterId(), r.GetIndex(),
		describe.Number(r.GetMachines(), "machine"), describe.Number(r.GetRuns(), "run"))
	if err == nil && len(r.GetEndedRuns()) > 0 {
		_, err = fmt.Fprintf(a.Out, "active in the snapshot, now FAILED: %s\n", strings.Join(r.GetEndedRuns(), ", "))
	}
	if err == nil && len(r.GetAbandonedRuns()) > 0 {
		_, err = fmt.Fprintf(a.Out, "active before the restore, now abandoned: %s\n",
			strings.Join(r.GetAbandonedRuns(), ", "))
	}
	return err
}

// readSnapshot returns a file of any size.
func readSnapshot(a *app.App, name string) ([]byte, error) {
	f, err := output.OpenFile(a, name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(f)
}
