package open

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Each refusal names the flag, and contains no credentials.
func TestOpen(t *testing.T) {
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
		c    Config
		want string // in the error; empty: no error
	}{
		{"none", Config{}, ""},
		{"a directory", Config{URL: "file://" + filepath.Join(t.TempDir(), "a")}, ""},
		{"a bucket", Config{URL: bucket}, ""},
		{"credentials in the URL", Config{URL: "s3://key:hush@b?endpoint=x"}, "contains credentials"},
		{"credentials that others can read", Config{URL: bucket, CredentialsFile: open},
			"other users can read it"},
		{"no endpoint", Config{URL: "s3://b"}, "want s3://bucket?endpoint=host"},
		{"unknown parameter", Config{URL: bucket + "&acl=public"}, `unknown parameter "acl"`},
		{"directory with a host", Config{URL: "file://host/a"}, "want file:/// and the path"},
		{"other scheme", Config{URL: "ftp://a"}, "want file:///directory or s3://bucket"},
		{"dropped before archived", Config{URL: bucket, After: 2 * time.Hour,
			Keep: time.Hour}, "--archive-keep longer than --archive-after"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.c.After == 0 {
				tt.c.After = time.Hour
			}
			s, done, err := Open(tt.c)
			done()
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("got %v, want no error", err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) ||
				strings.Contains(err.Error(), "hush")):
				t.Errorf("got %v, want %q", err, tt.want)
			case err == nil && (s == nil) != (tt.c.URL == ""):
				t.Errorf("got archive %v, want none", s)
			}
		})
	}
}
