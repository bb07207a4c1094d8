package serve

import (
	"os"
	"path/filepath"
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

func TestOpenArchive(t *testing.T) {
	open := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(open, []byte("[default]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o644); err != nil {
		t.Fatal(err)
	}
	const bucket = "s3://b/p?endpoint=s3.example.com&region=eu-1"
	for _, tt := range []struct {
		name string
		c    archiveConfig
		want string // in the error; empty: no error
	}{
		{"none", archiveConfig{}, ""},
		{"a directory", archiveConfig{ArchiveURL: "file://" + filepath.Join(t.TempDir(), "a")}, ""},
		{"a bucket", archiveConfig{ArchiveURL: bucket}, ""},
		{"credentials in the URL", archiveConfig{ArchiveURL: "s3://key:hush@b?endpoint=x"}, "contains credentials"},
		{"credentials that others can read", archiveConfig{ArchiveURL: bucket, ArchiveCredentialsFile: open},
			"other users can read it"},
		{"no endpoint", archiveConfig{ArchiveURL: "s3://b"}, "want s3://bucket?endpoint=host"},
		{"unknown parameter", archiveConfig{ArchiveURL: bucket + "&acl=public"}, `unknown parameter "acl"`},
		{"directory with a host", archiveConfig{ArchiveURL: "file://host/a"}, "want file:/// and the path"},
		{"other scheme", archiveConfig{ArchiveURL: "ftp://a"}, "want file:///directory or s3://bucket"},
		{"dropped before archived", archiveConfig{ArchiveURL: bucket, ArchiveAfter: 2 * time.Hour,
			ArchiveKeep: time.Hour}, "--archive-keep longer than --archive-after"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.c.ArchiveAfter == 0 {
				tt.c.ArchiveAfter = time.Hour
			}
			s, done, err := tt.c.open(nil)
			done()
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("got %v, want no error", err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) ||
				strings.Contains(err.Error(), "hush")):
				t.Errorf("got %v, want %q", err, tt.want)
			case err == nil && (s == nil) != (tt.c.ArchiveURL == ""):
				t.Errorf("got archive %v, want none", s)
			}
		})
	}
}
