package history

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestFullDisk: a file that cannot be written is logged once, and sampling continues. Nothing is
// left of it, the file before stays, and the next success has all samples.
func TestFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, log := filepath.Join(t.TempDir(), "data"), new(bytes.Buffer)
		h := New(Config{Dir: dir, Logger: slog.New(slog.NewTextHandler(log, nil))}, site(), newPeer())
		check := func(at string, warnings, samples int, files []string) {
			t.Helper()
			found, err := filepath.Glob(filepath.Join(dir, "*"))
			if err != nil {
				t.Fatal(err)
			}
			for i := range found {
				found[i] = filepath.Base(found[i])
			}
			if diff := cmp.Diff(files, found); diff != "" {
				t.Errorf("%s: files (-want +got):\n%s", at, diff)
			}
			if got := strings.Count(log.String(), "cannot save the charts"); got != warnings {
				t.Errorf("%s: got %d warnings, want %d:\n%s", at, got, warnings, log)
			}
			kept := New(Config{Dir: dir}, nil, newPeer())
			kept.load()
			n := 0
			for _, p := range kept.Window(RangeOf("1h")).Heartbeats.Points {
				n += p.Periods
			}
			if n != samples {
				t.Errorf("%s: got %d samples in the file, want %d", at, n, samples)
			}
		}
		during(t, h, 12*time.Minute)
		check("no directory", 1, 0, nil)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		during(t, h, 6*time.Minute)
		check("directory", 1, 108, []string{fileName})
		if err := os.Symlink("/dev/full", filepath.Join(dir, fileName+".part")); err != nil {
			t.Fatal(err)
		}
		during(t, h, 20*time.Second)
		check("full disk", 2, 108, []string{fileName})
		if !strings.Contains(log.String(), "no space left on device") {
			t.Errorf("log: got %q, want the reason", log)
		}
	})
}
