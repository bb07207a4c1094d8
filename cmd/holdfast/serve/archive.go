package serve

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"github.com/holdfast-metal/holdfast/executor/retention"
	archives "github.com/holdfast-metal/holdfast/internal/archive/open"
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

// open opens the archive, which the leader writes and all peers read; nil for none.
func (c *archiveConfig) open(transport *http.Transport) (retention.Archive, func(), error) {
	return archives.Open(archives.Config{URL: c.ArchiveURL, CredentialsFile: c.ArchiveCredentialsFile,
		After: c.ArchiveAfter, Keep: c.ArchiveKeep, Transport: transport})
}
