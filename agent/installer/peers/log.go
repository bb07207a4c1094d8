package peers

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"
)

const (
	// logEvery is the time between two parts of the log.
	logEvery = 2 * time.Second
	// maxLog bounds the unsent log, and maxPart a single part, in bytes.
	maxLog  = 4 << 20
	maxPart = 64 << 10
)

// Log stores its input and sends it to the peers. It is an io.Writer that never blocks and
// never fails.
type Log struct {
	mu   sync.Mutex
	text []byte // from offset sent on
	sent int64  // offset of the first byte that no peer has
}

// Write implements io.Writer. It drops text beyond maxLog, because the start of a log is
// more useful than its end.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p[:min(len(p), max(0, maxLog-len(l.text)))]...)
	return len(p), nil
}

// Run sends the log every two seconds until the context ends.
func (l *Log) Run(ctx context.Context, c *Client, to string) error {
	t := time.NewTicker(logEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
			// A failed part is sent again next time. Logging the failure would make the log
			// longer.
			if err := l.Flush(ctx, c, to); errors.Is(err, ErrOver) {
				return nil
			}
		}
	}
}

// Flush sends the unsent log. Parts carry their offset, so that a repeated part counts
// once.
func (l *Log) Flush(ctx context.Context, c *Client, to string) error {
	for {
		l.mu.Lock()
		part, at := bytes.Clone(l.text[:min(len(l.text), maxPart)]), l.sent
		l.mu.Unlock()
		if len(part) == 0 {
			return nil
		}
		if err := c.SendLog(ctx, to, at, part); err != nil {
			return err
		}
		l.mu.Lock()
		l.text, l.sent = l.text[len(part):], at+int64(len(part))
		l.mu.Unlock()
	}
}
