// Package open opens the archive that a URL names. It must not read or write it.
package open

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// Config names an archive. Its texts are those of the flags --archive-*.
type Config struct {
	URL             string          // file:///directory, or s3://bucket/prefix?endpoint=host; empty: none
	CredentialsFile string          // of the bucket
	After, Keep     time.Duration   // from the end of a run to its archival, and to its removal; Keep 0: never
	Transport       *http.Transport // for the bucket
}

// Archive stores old runs.
type Archive interface {
	Put(ctx context.Context, name string, data []byte) error
	Get(ctx context.Context, name string) ([]byte, error)
	Remove(ctx context.Context, folder string) error
}

// Open opens the archive, or returns nil if there is no URL. done closes it, and must be called
// even after an error. Open sends no request to a bucket yet.
func Open(c Config) (a Archive, done func(), err error) {
	done = func() {}
	if c.URL == "" && c.After >= 0 && c.Keep >= 0 {
		return nil, done, nil
	}
	if c.After <= 0 || c.Keep < 0 || c.Keep > 0 && c.Keep < c.After {
		return nil, done, fmt.Errorf("read --archive-after %s and --archive-keep %s: want positive times, and "+
			"--archive-keep longer than --archive-after", c.After, c.Keep)
	}
	u, err := url.Parse(c.URL)
	if err != nil {
		return nil, done, errors.New("read --archive-url: it is not a URL") // without its text, which may have credentials
	}
	if u.User != nil {
		return nil, done, errors.New("read --archive-url: it contains credentials: put them into --archive-credentials-file")
	}
	switch u.Scheme {
	case "file":
		return directory(u)
	case "s3":
		a, err := bucket(u, c)
		return a, done, err
	}
	return nil, done, fmt.Errorf("read --archive-url %s: want file:///directory or s3://bucket", u.Redacted())
}
