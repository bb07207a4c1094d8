package operator

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/kinds"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	"github.com/holdfast-metal/holdfast/internal/cli/prompt"
	"github.com/holdfast-metal/holdfast/internal/describe"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// replaced is the state that a restore would replace.
type replaced struct {
	cluster  *holdfastv1.ClusterStatus
	machines int
	more     bool // there are more machines
	runs     bool // there are runs
	active   []*holdfastv1.Run
}

// allowRestore shows the state that a snapshot would replace, and blocks until the operator has
// confirmed the loss. It returns an error if the leader would refuse the restore.
func allowRestore(ctx context.Context, a *app.App, c *client.Client, path string, ok prompt.Consent,
	r *holdfastv1.RestoreSnapshotRequest, data []byte) error {
	if ok.Given() {
		return nil
	}
	if err := ok.Precheck(a, path, "replace the state of the cluster"); err != nil {
		return err
	}
	b, err := fsm.ReadBackup(bytes.NewReader(data))
	if err != nil {
		return err
	}
	now, err := readReplaced(ctx, c)
	if err != nil {
		return err
	}
	if ok.DryRun {
		if _, err := io.WriteString(a.Out, inspection(b)); err != nil {
			return err
		}
		a.Note("dry run: %s", now.loss())
	}
	if err := now.check(b, r); err != nil || ok.DryRun {
		return err
	}
	h, of := b.Header, "this cluster"
	if h.GetClusterId() != now.cluster.GetClusterId() {
		of = "cluster " + h.GetClusterId()
	}
	taken := h.GetTakenAt().AsTime().UTC()
	return ok.Obtain(ctx, a, path, fmt.Sprintf("%s, by a snapshot of %s, taken %s (%s ago): %s", now.loss(), of,
		taken.Format(time.RFC3339), describe.Duration(a.Now().Sub(taken)), recordsOf(b)), now.cluster.GetClusterId())
}

func readReplaced(ctx context.Context, c *client.Client) (replaced, error) {
	var r replaced
	var err error
	if r.cluster, err = kinds.GetClusterStatus(ctx, c); err != nil {
		return r, err
	}
	machines, more, err := kinds.Machine().First(ctx, c, output.PageSize)
	if err != nil {
		return r, app.Failed(err, "list machines")
	}
	runs, err := kinds.Run().All(ctx, c, "", 1)
	if err != nil {
		return r, app.Failed(err, "list runs")
	}
	if r.active, err = kinds.Run().All(ctx, c, kinds.ActiveRuns, 0); err != nil {
		return r, app.Failed(err, "list runs")
	}
	r.machines, r.more, r.runs = len(machines), more, len(runs) > 0
	return r, nil
}

// loss returns the state that is lost in a sentence.
func (r replaced) loss() string {
	least := ""
	if r.more {
		least = "at least "
	}
	return fmt.Sprintf("replace the state of cluster %s: %s%s, %s", r.cluster.GetClusterId(), least,
		describe.Number(r.machines, "machine"), describe.Number(len(r.active), "active run"))
}

// check returns the error with which the leader would refuse the restore, before the operator is
// asked. The leader checks again.
func (r replaced) check(b *fsm.Backup, req *holdfastv1.RestoreSnapshotRequest) error {
	was, is := b.Header.GetClusterId(), r.cluster.GetClusterId()
	level, has := b.View().Meta().GetFeatureLevel(), r.cluster.GetFeatureLevel()
	refuse := func(format string, args ...any) error {
		return app.Exitf(app.ExitConflict, "restore snapshot: %s", fmt.Sprintf(format, args...))
	}
	switch {
	case level > has:
		return refuse("the snapshot has feature level %d, the cluster %d: upgrade all peers first", level, has)
	case was != is && !req.GetOtherCluster() && (r.machines > 0 || r.runs):
		return refuse("the snapshot is of cluster %s, and this is %s, which has machines or runs of its own: "+
			"restore it into a new cluster, or confirm with --other-cluster", was, is)
	case len(r.active) > 0 && !req.GetAbandonRuns():
		return refuse("a restore would abandon active runs (%d, such as %s on machine %s): "+
			"cancel them, wait, or pass --abandon-runs", len(r.active), r.active[0].GetRunId(), r.active[0].GetMachineId())
	}
	return nil
}

// recordsOf returns the number of machines and runs in a snapshot.
func recordsOf(b *fsm.Backup) string {
	n := map[string]uint64{}
	for _, t := range b.Tables() {
		n[t.Table] = t.Records
	}
	return describe.Number(n["machines"], "machine") + ", " + describe.Number(n["runs"], "run")
}
