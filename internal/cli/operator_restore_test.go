package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/clitest"
)

// TestRestoreIsCheckedFirst checks that a restore that the leader would refuse is refused before
// the question, and by --dry-run.
func TestRestoreIsCheckedFirst(t *testing.T) {
	dir := t.TempDir()
	whole := clitest.SnapshotFile(t)
	for name, data := range map[string][]byte{
		"good.snap": whole, "cut.snap": whole[:len(whole)-5], "empty.snap": nil, "text.snap": []byte("hello\n"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name, file, flags string
		change            func(*clitest.Cluster)
		code              int
		want              string
	}{
		{"another cluster", "good.snap", "--abandon-runs", func(f *clitest.Cluster) { f.Cluster.ClusterId = "c-2" },
			app.ExitConflict,
			"the snapshot is of cluster c-1, and this is c-2, which has machines or runs of its own"},
		{"another cluster, confirmed", "good.snap", "--abandon-runs --other-cluster",
			func(f *clitest.Cluster) { f.Cluster.ClusterId = "c-2" }, app.ExitOK, ""},
		{"another cluster without anything", "good.snap", "", func(f *clitest.Cluster) {
			f.Cluster.ClusterId, f.Machines, f.Runs = "c-2", nil, nil
		}, app.ExitOK, ""},
		{"active runs", "good.snap", "", nil, app.ExitConflict, "such as run-789 on machine m-123): cancel them"},
		{"too new", "good.snap", "--abandon-runs", func(f *clitest.Cluster) { f.Cluster.FeatureLevel = 0 },
			app.ExitConflict,
			"the cluster 0: upgrade all peers first"},
		{"cut off", "cut.snap", "", nil, app.ExitError, "it is damaged or incomplete"},
		{"empty", "empty.snap", "", nil, app.ExitError, "it is not a snapshot"},
		{"a text", "text.snap", "", nil, app.ExitError, "it is not a snapshot"},
	} {
		for _, how := range []string{"--dry-run", ""} {
			t.Run(tt.name+how, func(t *testing.T) {
				f := clitest.Fixture()
				f.Operator, f.Cluster.ClusterId, f.Cluster.FeatureLevel = &clitest.Operator{}, "c-1", 3
				if tt.change != nil {
					tt.change(f)
				}
				clitest.Start(t, f)
				c := clitest.Command{In: f.Cluster.GetClusterId() + "\n", Terminal: true, Answers: true}
				args := "operator snapshot restore " + filepath.Join(dir, tt.file) + " " + tt.flags + " " + how
				c.WantCode(t, c.Run(t, f, strings.Fields(args)...), tt.code)
				clitest.WantIn(t, "stderr", c.Err.String(), tt.want)
				if asked := strings.Contains(c.Err.String(), "to confirm"); asked != (tt.code == app.ExitOK && how == "") {
					t.Errorf("asked: %v; stderr:\n%s", asked, c.Err.String())
				}
			})
		}
	}
}
