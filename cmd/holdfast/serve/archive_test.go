package serve

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// TestArchiveKeys checks that the file has one key with subkeys, and that flags take precedence.
func TestArchiveKeys(t *testing.T) {
	c := &Config{}
	fs := pflag.NewFlagSet("server", pflag.ContinueOnError)
	c.flags(fs)
	given := map[string]bool{"archive-keep-runs": true}
	if err := fs.Set("archive-keep-runs", "9"); err != nil {
		t.Fatal(err)
	}
	if err := c.file(os.LookupEnv).Parse(fs, given,
		[]byte("archive:\n  url: file:///srv/a\n  after: 48h\n  keep_runs: 5\n  keep: 96h\n")); err != nil {
		t.Fatal(err)
	}
	if got, want := c.archiveConfig, (archiveConfig{ArchiveURL: "file:///srv/a", ArchiveAfter: 48 * time.Hour,
		ArchiveKeep: 96 * time.Hour, ArchiveKeepRuns: 9}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for file, want := range map[string]string{
		"archive: 3":                "want keys such as",
		"archive: {x: 1}":           `unknown key "x" below "archive"`,
		"archive: {archive_url: x}": `unknown key "archive_url" below "archive"`,
		"archive: {after: soon}":    "after",
	} {
		if err := c.file(os.LookupEnv).Parse(fs, given, []byte(file)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", file, err, want)
		}
	}
}
