package open

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfast-metal/holdfast/internal/archive/dir"
	"github.com/holdfast-metal/holdfast/internal/archive/s3"
)

// directory opens an archive in a directory.
func directory(u *url.URL) (Archive, func(), error) {
	if u.Host != "" || !filepath.IsAbs(u.Path) || u.RawQuery != "" {
		return nil, func() {}, fmt.Errorf("read --archive-url %s: want file:/// and the path of a directory", u.Redacted())
	}
	d, err := dir.Open(u.Path)
	if err != nil {
		return nil, func() {}, fmt.Errorf("use --archive-url %s: %w", u.Redacted(), err)
	}
	return d, func() { _ = d.Close() }, nil
}

// bucket opens an archive in a bucket.
func bucket(u *url.URL, c Config) (Archive, error) {
	q := u.Query()
	for k := range q {
		if !slices.Contains([]string{"endpoint", "region", "plain"}, k) {
			return nil, fmt.Errorf("read --archive-url %s: unknown parameter %q: want endpoint, region or plain",
				u.Redacted(), k)
		}
	}
	if u.Host == "" || q.Get("endpoint") == "" {
		return nil, fmt.Errorf(
			"read --archive-url %s: want s3://bucket?endpoint=host, such as s3.eu-central-1.amazonaws.com", u.Redacted())
	}
	if c.CredentialsFile != "" {
		st, err := os.Stat(c.CredentialsFile)
		if err != nil {
			return nil, fmt.Errorf("read --archive-credentials-file: %w", err)
		}
		if st.Mode().Perm()&0o007 != 0 {
			return nil, fmt.Errorf("read --archive-credentials-file %s: other users can read it (%v): run chmod o= on it",
				c.CredentialsFile, st.Mode().Perm())
		}
	}
	s, err := s3.New(s3.Config{Endpoint: q.Get("endpoint"), Bucket: u.Host, Prefix: strings.Trim(u.Path, "/"),
		Region: q.Get("region"), Plain: q.Get("plain") == "true", CredentialsFile: c.CredentialsFile,
		Transport: c.Transport})
	if err != nil {
		return nil, fmt.Errorf("use --archive-url %s: %w", u.Redacted(), err)
	}
	return s, nil
}
