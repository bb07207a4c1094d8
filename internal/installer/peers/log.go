package peers

import (
	"context"
	"errors"
	"sync"
	"time"
)

const (
	// logEvery is the time between two parts of the log.
	logEvery = 2 * time.Second
	// maxLog bounds what is kept while no peer takes the log, and maxPart what is sent at once, in
	// bytes.
	maxLog  = 4 << 20
	maxPart = 64 << 10
)

// Log keeps what is written to it and sends it to the peers. It is an io.Writer that never blocks
// and never fails.
type Log struct {
	mu   sync.Mutex
	text []byte // from offset on
	sent int64  // offset of the first byte that no peer has
}

// Write implements io.Writer. What does not fit any more is dropped: the start of a log tells more
// than its end.
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
			// What fails is sent next time; saying so in the log would make it longer each time.
			if err := l.Flush(ctx, c, to); errors.Is(err, ErrOver) {
				return nil
			}
		}
	}
}

// Flush sends all that no peer has. Parts keep their offset, so that one that is sent twice counts
// once.
func (l *Log) Flush(ctx context.Context, c *Client, to string) error {
	for {
		l.mu.Lock()
		part, at := append([]byte(nil), l.text[:min(len(l.text), maxPart)]...), l.sent
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
