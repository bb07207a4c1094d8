package serve

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"github.com/holdfast-metal/holdfast/executor/retention"
	"github.com/holdfast-metal/holdfast/internal/archive/dir"
	"github.com/holdfast-metal/holdfast/internal/archive/s3"
)

// archiveConfig selects the archive of old runs. In the file it is one key, archive, with keys
// below it.
type archiveConfig struct {
	ArchiveURL, ArchiveCredentialsFile string
	ArchiveAfter, ArchiveKeep          time.Duration
	ArchiveKeepRuns                    int
}

func (c *archiveConfig) flags(fs *pflag.FlagSet) {
	fs.StringVar(&c.ArchiveURL, "archive-url", "",
		"`URL` of the archive for steps and logs of old runs: file:///srv/holdfast (shared by all peers) or "+
			"s3://bucket/prefix?endpoint=host:port&region=name (default: no archive)")
	fs.StringVar(&c.ArchiveCredentialsFile, "archive-credentials-file", "",
		"`file` with aws_access_key_id and aws_secret_access_key for the bucket")
	fs.DurationVar(&c.ArchiveAfter, "archive-after", 30*24*time.Hour,
		"`time` after the end of a run until it is archived")
	fs.IntVar(&c.ArchiveKeepRuns, "archive-keep-runs", 3, "`number` of newest runs per machine that are not archived")
	fs.DurationVar(&c.ArchiveKeep, "archive-keep", 0,
		"`time` after the end of a run until it is deleted from the archive; 0: never")
}

func (c *archiveConfig) archiver(log *slog.Logger, reg prometheus.Registerer) retention.ArchiverConfig {
	keep := c.ArchiveKeepRuns
	if keep == 0 {
		keep = -1 // none: the archiver takes zero for its default
	}
	return retention.ArchiverConfig{After: c.ArchiveAfter, Keep: c.ArchiveKeep, KeepRuns: keep,
		Interval: min(time.Minute, c.ArchiveAfter), Logger: log, Registerer: reg}
}

// open opens the archive, which the leader writes and all peers read; nil for none. It sends no
// request to a bucket yet.
func (c *archiveConfig) open(transport *http.Transport) (s retention.Archive, done func(), err error) {
	done = func() {}
	if c.ArchiveURL == "" && c.ArchiveAfter >= 0 && c.ArchiveKeep >= 0 {
		return nil, done, nil
	}
	if c.ArchiveAfter <= 0 || c.ArchiveKeep < 0 || c.ArchiveKeep > 0 && c.ArchiveKeep < c.ArchiveAfter {
		return nil, done, fmt.Errorf("read --archive-after %s and --archive-keep %s: want positive times, and "+
			"--archive-keep longer than --archive-after", c.ArchiveAfter, c.ArchiveKeep)
	}
	u, err := url.Parse(c.ArchiveURL)
	if err != nil {
		return nil, done, errors.New("read --archive-url: it is not a URL") // without its text, which may have credentials
	}
	if u.User != nil {
		return nil, done, errors.New("read --archive-url: it contains credentials: put them into --archive-credentials-file")
	}
	switch u.Scheme {
	case "file":
		return c.openDirectory(u)
	case "s3":
		s, err := c.bucket(u, transport)
		return s, done, err
	}
	return nil, done, fmt.Errorf("read --archive-url %s: want file:///directory or s3://bucket", u.Redacted())
}

func (c *archiveConfig) openDirectory(u *url.URL) (retention.Archive, func(), error) {
	if u.Host != "" || !filepath.IsAbs(u.Path) || u.RawQuery != "" {
		return nil, func() {}, fmt.Errorf("read --archive-url %s: want file:/// and the path of a directory", u.Redacted())
	}
	d, err := dir.Open(u.Path)
	if err != nil {
		return nil, func() {}, fmt.Errorf("use --archive-url %s: %w", u.Redacted(), err)
	}
	return d, func() { _ = d.Close() }, nil
}

func (c *archiveConfig) bucket(u *url.URL, transport *http.Transport) (retention.Archive, error) {
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
	if c.ArchiveCredentialsFile != "" {
		st, err := os.Stat(c.ArchiveCredentialsFile)
		if err != nil {
			return nil, fmt.Errorf("read --archive-credentials-file: %w", err)
		}
		if st.Mode().Perm()&0o007 != 0 {
			return nil, fmt.Errorf("read --archive-credentials-file %s: other users can read it (%v): run chmod o= on it",
				c.ArchiveCredentialsFile, st.Mode().Perm())
		}
	}
	s, err := s3.New(s3.Config{Endpoint: q.Get("endpoint"), Bucket: u.Host, Prefix: strings.Trim(u.Path, "/"),
		Region: q.Get("region"), Plain: q.Get("plain") == "true", CredentialsFile: c.ArchiveCredentialsFile,
		Transport: transport})
	if err != nil {
		return nil, fmt.Errorf("use --archive-url %s: %w", u.Redacted(), err)
	}
	return s, nil
}
