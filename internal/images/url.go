package images

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/holdfast-metal/holdfast/internal/images/blob"
)

// fromURL starts or resumes a file from its URL.
func (d *Depot) fromURL(ctx context.Context, f file, r *blob.Receiver) error {
	ctx, alive, stop := d.lifeline(ctx)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.url, http.NoBody)
	if err != nil {
		return permanentError{fmt.Errorf("fetch from %s: %w", displayURL(f.url), unwrapURL(err))}
	}
	req.Header.Set("Accept-Encoding", "identity") // the checksum is of the unencoded file
	req.Header.Set("User-Agent", "holdfast")
	if r.Offset() > 0 {
		req.Header.Set("Range", "bytes="+strconv.FormatInt(r.Offset(), 10)+"-")
	}
	resp, err := d.cfg.Client.Do(req)
	if err != nil {
		return fmt.Errorf("fetch from %s: %w", displayURL(f.url), why(ctx, unwrapURL(err)))
	}
	defer func() { _ = resp.Body.Close() }()
	if err := checkResponse(resp, f, r); err != nil {
		return fmt.Errorf("fetch from %s: %w", displayURL(f.url), err)
	}
	if resp.StatusCode != http.StatusRequestedRangeNotSatisfiable { // 416: the file is already complete
		n, err := copyTo(r, resp.Body, alive)
		d.metrics.fetched.WithLabelValues("url").Add(float64(n))
		if err != nil {
			return fmt.Errorf("fetch from %s: %w", displayURL(f.url), why(ctx, unwrapURL(err)))
		}
	}
	if err := r.Commit(); err != nil {
		return fmt.Errorf("fetch from %s: %w", displayURL(f.url), err)
	}
	return nil
}

// checkResponse checks that the body of a response continues the file at the current offset.
func checkResponse(resp *http.Response, f file, r *blob.Receiver) error {
	var total int64 // -1 if unknown
	switch code := resp.StatusCode; {
	case code == http.StatusOK:
		total = resp.ContentLength
		if r.Offset() > 0 { // the server does not support ranges
			if err := r.Restart(); err != nil {
				return err
			}
		}
	case code == http.StatusPartialContent, code == http.StatusRequestedRangeNotSatisfiable:
		first, all, ok := contentRange(resp.Header.Get("Content-Range"))
		whole := code == http.StatusRequestedRangeNotSatisfiable
		if !ok || first != r.Offset() && !whole || whole && all != r.Offset() {
			return errors.Join(
				fmt.Errorf("asked for the bytes from %d, the server answered %s with the range %.80q: restarting",
					r.Offset(), resp.Status, resp.Header.Get("Content-Range")),
				r.Restart(),
			)
		}
		total = all
	case code == http.StatusRequestTimeout, code == http.StatusTooManyRequests, code >= http.StatusInternalServerError:
		return fmt.Errorf("the server answered %s", resp.Status)
	default:
		return permanentError{
			fmt.Errorf("the server answered %s: check the URL, or add the image with another one", resp.Status),
		}
	}
	if f.size > 0 && total >= 0 && total != f.size {
		return permanentError{
			fmt.Errorf("the file has %d bytes, but the image states %d: add the image again for the current file: %w",
				total, f.size, blob.ErrSize),
		}
	}
	return nil
}

// contentRange parses a Content-Range (RFC 9110 §14.4). It returns the offset of the body
// and the length of the file, -1 if unknown. For "bytes */100" both are 100: there are no
// bytes from that offset.
func contentRange(s string) (first, total int64, ok bool) {
	s, isBytes := strings.CutPrefix(s, "bytes ")
	span, all, cut := strings.Cut(s, "/")
	if !isBytes || !cut {
		return 0, 0, false
	}
	total = -1
	if all != "*" {
		n, err := strconv.ParseUint(all, 10, 63)
		if err != nil {
			return 0, 0, false
		}
		total = int64(n)
	}
	if span == "*" {
		return total, total, total >= 0
	}
	from, to, cut := strings.Cut(span, "-")
	a, err1 := strconv.ParseUint(from, 10, 63)
	b, err2 := strconv.ParseUint(to, 10, 63)
	if !cut || err1 != nil || err2 != nil || a > b || total >= 0 && int64(b) >= total {
		return 0, 0, false
	}
	return int64(a), total, true
}

// copyTo is io.Copy that calls alive after each read. It returns errors of the reader and
// the writer unwrapped.
func copyTo(w io.Writer, from io.Reader, alive func()) (n int64, err error) {
	buf := make([]byte, 256<<10)
	for {
		k, rerr := from.Read(buf)
		if k > 0 {
			alive()
			w, werr := w.Write(buf[:k])
			n += int64(w)
			if werr != nil {
				return n, werr
			}
		}
		switch {
		case errors.Is(rerr, io.EOF):
			return n, nil
		case rerr != nil:
			return n, rerr
		}
	}
}

// displayURL returns a URL for display. The query is removed, because it may contain a
// signature.
func displayURL(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return "its URL"
	}
	return u.Scheme + "://" + u.Host + u.EscapedPath()
}

// unwrapURL unwraps a *url.Error, which contains the full URL.
func unwrapURL(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}
