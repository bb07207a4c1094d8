package operator

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/describe"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func operatorDebug(a *app.App) *cobra.Command {
	var file string
	var cpu int32
	cmd := &cobra.Command{
		Use: "debug", Args: app.Exactly(),
		Short: "Collect diagnostics of a peer into an archive",
		Long: `Collect diagnostics of a peer into an archive: configuration without secrets, status of the cluster, metrics, goroutines, memory,
and with --cpu a profile. The peer at --addr answers, with or without a leader. The archive contains no secret, token or key; it
contains names of machines and addresses.`,
		Example: `  holdfast --addr 10.0.0.2:7400 operator debug -f n2.tar.gz
  holdfast --addr 10.0.0.2:7400 operator debug --cpu 10`,
		RunE: a.Online(func(ctx context.Context, c *client.Client, _ []string) error {
			ctx, cancel := a.Patience(ctx, 0)
			defer cancel()
			if file == "" {
				file = "holdfast-debug-" + time.Now().UTC().Format("20060102T150405Z") + ".tar.gz"
			}
			names, err := collectDebug(ctx, c, file, cpu)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.Out, "collected %s: %s\n", file, describe.Number(names, "file"))
			return err
		}),
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "`archive` to write (0600); default: holdfast-debug-TIME.tar.gz")
	cmd.Flags().Int32Var(&cpu, "cpu", 0, "take a CPU profile of this many `seconds`")
	return cmd
}

// collectDebug writes the files that a peer sends into an archive, and returns their number.
func collectDebug(ctx context.Context, c *client.Client, file string, cpu int32) (n int, err error) {
	// First: a profile for a file that exists would be in vain.
	out, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, fmt.Errorf("collect debug files: %w", err)
	}
	defer func() {
		if err = errors.Join(err, out.Close()); err != nil {
			err = errors.Join(err, os.Remove(file))
		}
	}()
	stream, err := c.Cluster().CollectDebug(ctx, &holdfastv1.CollectDebugRequest{CpuSeconds: cpu})
	if err != nil {
		return 0, app.Failed(err, "collect debug files")
	}
	var names []string
	files := map[string][]byte{}
	for {
		part, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, app.Failed(err, "collect debug files")
		}
		name := path.Base(part.GetName()) // a peer does not choose where files go
		if _, known := files[name]; !known {
			names = append(names, name)
		}
		files[name] = append(files[name], part.GetData()...)
	}
	z := gzip.NewWriter(out)
	t := tar.NewWriter(z)
	for _, name := range names {
		err = errors.Join(err, t.WriteHeader(&tar.Header{Name: "holdfast-debug/" + name, Mode: 0o600,
			Size: int64(len(files[name])), ModTime: time.Now()}))
		if err == nil {
			_, err = t.Write(files[name])
		}
	}
	return len(names), errors.Join(err, t.Close(), z.Close())
}
