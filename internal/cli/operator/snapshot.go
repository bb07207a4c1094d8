package operator

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	"github.com/holdfast-metal/holdfast/internal/describe"
	"github.com/holdfast-metal/holdfast/internal/misfit"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func operatorSnapshot(a *app.App) *cobra.Command {
	return app.Parent(&cobra.Command{
		Use:   "snapshot",
		Short: "Save, verify and restore snapshots of the state",
		Example: `  holdfast operator snapshot save holdfast.snap
  holdfast operator snapshot verify holdfast.snap
  holdfast operator snapshot restore holdfast.snap`,
	}, snapshotSave(a), snapshotRestore(a), snapshotInspect(a), snapshotVerify(a))
}

func snapshotSave(a *app.App) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use: "save FILE", Args: app.Exactly("FILE"),
		Short: "Save the state to a file",
		Long: `Save the current state to a file (mode 0600). It is written to a temporary file and verified first, so FILE is either the old or
the new snapshot. Secrets in it stay encrypted: keep the secrets key file too, in another place. With --stale the answering peer
saves its own state, without a leader; that is not audited, and cluster status and alerts do not count it as a backup.
An existing file is replaced only with --force.`,
		Example: `  holdfast operator snapshot save /var/backups/holdfast.snap
  holdfast --addr 10.0.0.2:7400 --stale operator snapshot save rescued.snap`,
		RunE: a.Online(func(ctx context.Context, c *client.Client, args []string) error {
			ctx, cancel := a.Patience(ctx, 0)
			defer cancel()
			if _, err := os.Lstat(args[0]); err == nil && !force {
				return app.Exitf(app.ExitConflict, "save snapshot: %s is there already: choose another name, or replace "+
					"it with --force", args[0])
			}
			b, size, err := saveSnapshot(ctx, c, args[0])
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.Out, "saved %s: %d bytes, cluster %s at index %d, taken by %s\n", args[0], size,
				b.Header.GetClusterId(), b.Header.GetIndex(), b.Header.GetPeer())
			noteSaved(ctx, a, c, b)
			return err
		}),
	}
	cmd.Flags().BoolVar(&force, "force", false, "replace an existing file")
	return cmd
}

// saveSnapshot writes a snapshot to a temporary file beside path, verifies it while it arrives and
// again from disk, and renames it to path.
func saveSnapshot(ctx context.Context, c *client.Client, path string) (_ *fsm.CheckedBackup, size int64, err error) {
	dir := filepath.Dir(path)
	tmp, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*") // 0600
	if err != nil {
		return nil, 0, fmt.Errorf("save snapshot: %w", misfit.File(path, err))
	}
	defer func() {
		_ = tmp.Close() // closed already, when all went well
		if err != nil {
			_ = os.Remove(tmp.Name())
		}
	}()
	stream, err := c.Operator().SaveSnapshot(ctx, &holdfastv1.SaveSnapshotRequest{})
	if err != nil {
		return nil, 0, app.Failed(err, "save snapshot")
	}
	in := &received{stream: stream, file: tmp, sum: sha256.New()}
	b, err := fsm.CheckBackup(in)
	if in.err != nil {
		return nil, 0, in.err
	}
	if err != nil {
		return nil, 0, fmt.Errorf("save snapshot: the received data is incomplete: %w", err)
	}
	if err := errors.Join(in.readBack(), tmp.Sync(), tmp.Close()); err != nil {
		return nil, 0, fmt.Errorf("save snapshot: %w", err)
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return nil, 0, fmt.Errorf("save snapshot: replace %s: %w", path, errors.Unwrap(err))
	}
	d, err := os.Open(dir)
	if err != nil {
		return nil, 0, fmt.Errorf("save snapshot: %w", err)
	}
	return b, in.size, errors.Join(d.Sync(), d.Close())
}

// noteSaved records the backup in the cluster once the file is complete. A snapshot of one peer
// (--stale) is no backup, and there may be no leader. If recording fails, the file is still
// valid.
func noteSaved(ctx context.Context, a *app.App, c *client.Client, b *fsm.CheckedBackup) {
	if a.Globals.Stale {
		return
	}
	_, err := c.Operator().NoteSnapshot(ctx, &holdfastv1.NoteSnapshotRequest{Peer: b.Header.GetPeer(),
		SavedAt: b.Header.GetTakenAt()})
	if err != nil {
		a.Note("the file is complete, but the cluster could not record the new backup: %s",
			status.Convert(err).Message())
	}
}

func snapshotInspect(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use: "inspect FILE", Args: app.Exactly("FILE"),
		Short:   "Show the contents of a snapshot file and the keys it needs",
		Example: "  holdfast operator snapshot inspect holdfast.snap",
		RunE: func(_ *cobra.Command, args []string) error {
			f, err := output.OpenFile(a, args[0])
			if err != nil {
				return fmt.Errorf("read snapshot file: %w", err)
			}
			defer func() { _ = f.Close() }()
			b, err := fsm.ReadBackup(f)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			_, err = io.WriteString(a.Out, inspection(b))
			return err
		},
	}
}

func inspection(b *fsm.Backup) string {
	var out strings.Builder
	h := b.Header
	keys := "none"
	if len(h.GetSecretsKeys()) > 0 {
		keys = strings.Join(h.GetSecretsKeys(), ", ")
	}
	active := 0
	for range b.View().ActiveRuns() {
		active++
	}
	fmt.Fprintf(&out, "cluster        %s\nindex          %d, term %d\ntaken          %s by %s (%s)\nfeature level  "+
		"%d\nsecrets keys   %s\nactive runs    %d\n\n",
		h.GetClusterId(), h.GetIndex(), h.GetTerm(), h.GetTakenAt().AsTime().UTC().Format(time.RFC3339), h.GetPeer(),
		h.GetVersion(), h.GetFeatureLevel(), keys, active)
	for _, t := range b.Tables() {
		if t.Records > 0 {
			fmt.Fprintf(&out, "%-20s %d\n", t.Table, t.Records)
		}
	}
	return out.String()
}

func snapshotVerify(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use: "verify FILE", Args: app.Exactly("FILE"),
		Short:   "Verify that a snapshot file is complete and readable",
		Example: "  holdfast operator snapshot verify holdfast.snap",
		RunE: func(_ *cobra.Command, args []string) error {
			f, err := output.OpenFile(a, args[0])
			if err != nil {
				return fmt.Errorf("read snapshot file: %w", err)
			}
			defer func() { _ = f.Close() }()
			in := &counted{Reader: f}
			b, err := fsm.CheckBackup(in)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			records := uint64(0)
			for _, t := range b.Tables {
				records += t.Records
			}
			_, err = fmt.Fprintf(a.Out, "%s is whole: %d bytes, %s\n", args[0], in.n,
				describe.Number(records, "record"))
			return err
		},
	}
}
