package image

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// DefaultStall is how long a connection may be silent before another one is tried.
	DefaultStall = 20 * time.Second
	// DefaultGiveUp is how long all peers may be silent before the download fails: longer
	// than an election or a restart of a peer or a switch.
	DefaultGiveUp = 10 * time.Minute
	retryWait     = time.Second
)

// DownloadConfig configures a Download.
type DownloadConfig struct {
	Name   string   // of the image, for messages
	URLs   []string // all with the same bytes
	Size   int64    // expected, in bytes; 0: unknown
	HTTP   *http.Client
	Stall  time.Duration // default: DefaultStall
	GiveUp time.Duration // default: DefaultGiveUp
	Logger *slog.Logger  // default: none
}

// Download reads an image from the first URL that has it. If that fails, it continues with
// the next URL at the same byte. Only Received and Size may be called while Read runs.
type Download struct {
	DownloadConfig
	ctx      context.Context //nolint:containedctx // an io.Reader has no other place for it
	sum      hash.Hash
	received atomic.Int64
	total    atomic.Int64 // bytes; 0: unknown yet

	next   int // index of the next URL
	body   io.ReadCloser
	cancel context.CancelFunc
	stall  *time.Timer
	last   time.Time // when bytes were last received
	idle   time.Time // when Read last returned
	ended  bool
}

// NewDownload returns a download that ends with the context. Nothing is sent before the
// first Read.
func NewDownload(ctx context.Context, cfg DownloadConfig) *Download {
	cfg.HTTP = cmp.Or(cfg.HTTP, http.DefaultClient)
	cfg.Stall = cmp.Or(cfg.Stall, DefaultStall)
	cfg.GiveUp = cmp.Or(cfg.GiveUp, DefaultGiveUp)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	d := &Download{DownloadConfig: cfg, ctx: ctx, sum: sha256.New(), last: time.Now()}
	d.total.Store(cfg.Size)
	return d
}

// Received returns the number of bytes received.
func (d *Download) Received() int64 { return d.received.Load() }

// Size returns the total number of bytes, or 0 while it is unknown.
func (d *Download) Size() int64 { return d.total.Load() }

// Sum returns the SHA-256 of the bytes read so far, in hexadecimal.
func (d *Download) Sum() string { return hex.EncodeToString(d.sum.Sum(nil)) }

// Read implements io.Reader. It fails if no peer has sent anything for as long as GiveUp.
func (d *Download) Read(p []byte) (int, error) {
	defer func() { d.idle = time.Now() }()
	if time.Since(d.idle) > d.Stall {
		d.last = time.Now() // the reader was busy, for example erasing the disk
	}
	for {
		if d.ended {
			return 0, io.EOF
		}
		if d.body == nil {
			if err := d.connect(); err != nil {
				return 0, err
			}
			continue
		}
		d.stall.Reset(d.Stall)
		n, err := d.body.Read(p)
		d.stall.Stop()
		d.sum.Write(p[:n])
		at := d.received.Add(int64(n))
		if n > 0 {
			d.last = time.Now()
		}
		if total := d.total.Load(); err == io.EOF && total > 0 && at < total {
			err = io.ErrUnexpectedEOF
		}
		switch {
		case err == io.EOF:
			d.ended = true
			d.drop()
		case err != nil:
			d.drop()
			if d.ctx.Err() == nil {
				d.Logger.Warn("download interrupted, will resume", "received", at, "error", err)
			}
		}
		if n > 0 {
			return n, nil
		}
	}
}

// Close closes the connection.
func (d *Download) Close() error {
	d.drop()
	return nil
}

func (d *Download) drop() {
	if d.body == nil {
		return
	}
	d.cancel()
	_ = d.body.Close()
	d.body = nil
}

// connect tries the URLs in turn until one sends the bytes from the current position on.
func (d *Download) connect() error {
	var errs []error
	for tries := 0; ; tries++ {
		if err := context.Cause(d.ctx); err != nil {
			return fmt.Errorf("fetch image %s: %w", d.Name, err)
		}
		if tries > 0 && tries%len(d.URLs) == 0 {
			if time.Since(d.last) > d.GiveUp {
				return fmt.Errorf("fetch image %s: no peer has sent anything for %s, after %d of %d bytes: "+
					"is the network up, and is the image on the peers? %w",
					d.Name, d.GiveUp, d.Received(), d.Size(), errors.Join(errs...))
			}
			errs = nil
			select {
			case <-d.ctx.Done():
			case <-time.After(retryWait):
			}
		}
		url := d.URLs[d.next]
		err := d.open(url)
		if err == nil {
			return nil
		}
		d.next = (d.next + 1) % len(d.URLs)
		errs = append(errs, err)
		if d.ctx.Err() == nil {
			d.Logger.Warn("cannot fetch the image, trying the next URL", "url", url, "error", err)
		}
	}
}

// open requests the bytes from the current position on.
func (d *Download) open(url string) error {
	ctx, cancel := context.WithCancel(d.ctx)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		cancel()
		return fmt.Errorf("create the request: %w", err)
	}
	req.Header.Set("Accept-Encoding", "identity") // the checksum is over the bytes as they are
	at := d.Received()
	if at > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", at))
	}
	stall := time.AfterFunc(d.Stall, cancel)
	resp, err := d.HTTP.Do(req)
	if err != nil {
		stall.Stop()
		cancel()
		return err
	}
	skip, total, err := position(resp, at)
	if err == nil && d.Size() > 0 && total > 0 && total != d.Size() {
		err = fmt.Errorf("%s has %d bytes, want %d: the image was replaced", url, total, d.Size())
	}
	if err == nil {
		_, err = io.CopyN(io.Discard, resp.Body, skip)
	}
	if err != nil {
		stall.Stop()
		cancel()
		_ = resp.Body.Close()
		return err
	}
	if total > 0 {
		d.total.Store(total)
	}
	stall.Stop()
	d.body, d.cancel, d.stall = resp.Body, cancel, stall
	return nil
}

// position returns how many bytes of the response to skip, and the total number of bytes (0
// if unknown).
func position(resp *http.Response, at int64) (skip, total int64, err error) {
	switch resp.StatusCode {
	case http.StatusOK:
		return at, max(resp.ContentLength, 0), nil
	case http.StatusPartialContent:
		// bytes 100-199/200
		text, ok := strings.CutPrefix(resp.Header.Get("Content-Range"), "bytes ")
		span, all, ok2 := strings.Cut(text, "/")
		first, _, _ := strings.Cut(span, "-")
		start, err := strconv.ParseInt(first, 10, 64)
		if !ok || !ok2 || err != nil || start != at {
			return 0, 0, fmt.Errorf("request bytes from %d: the response has Content-Range %q",
				at, resp.Header.Get("Content-Range"))
		}
		total, err = strconv.ParseInt(all, 10, 64)
		if err != nil {
			total = 0 // "*": unknown
		}
		return 0, total, nil
	}
	b, _ := io.ReadAll(io.LimitReader(resp.Body, 200))
	return 0, 0, fmt.Errorf("%s: %s", resp.Status, strings.TrimSpace(string(b)))
}
