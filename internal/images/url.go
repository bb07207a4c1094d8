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

// fromURL goes on with a file from where its image says it is.
func (d *Depot) fromURL(ctx context.Context, f file, r *blob.Receiver) error {
	ctx, alive, stop := d.lifeline(ctx)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.url, http.NoBody)
	if err != nil {
		return permanentError{fmt.Errorf("fetch from %s: %w", place(f.url), bare(err))}
	}
	req.Header.Set("Accept-Encoding", "identity") // the sum is of the file as it lies there
	req.Header.Set("User-Agent", "holdfast")
	if r.Offset() > 0 {
		req.Header.Set("Range", "bytes="+strconv.FormatInt(r.Offset(), 10)+"-")
	}
	resp, err := d.cfg.Client.Do(req)
	if err != nil {
		return fmt.Errorf("fetch from %s: %w", place(f.url), why(ctx, bare(err)))
	}
	defer func() { _ = resp.Body.Close() }()
	if err := goOn(resp, f, r); err != nil {
		return fmt.Errorf("fetch from %s: %w", place(f.url), err)
	}
	if resp.StatusCode != http.StatusRequestedRangeNotSatisfiable { // else all of it is here
		n, err := copyTo(r, resp.Body, alive)
		d.metrics.fetched.WithLabelValues("url").Add(float64(n))
		if err != nil {
			return fmt.Errorf("fetch from %s: %w", place(f.url), why(ctx, bare(err)))
		}
	}
	if err := r.Commit(); err != nil {
		return fmt.Errorf("fetch from %s: %w", place(f.url), err)
	}
	return nil
}

// goOn reports whether the body of an answer is what comes next of a file.
func goOn(resp *http.Response, f file, r *blob.Receiver) error {
	var total int64 // -1: not said
	switch code := resp.StatusCode; {
	case code == http.StatusOK:
		total = resp.ContentLength
		if r.Offset() > 0 { // it knows no ranges
			if err := r.Restart(); err != nil {
				return err
			}
		}
	case code == http.StatusPartialContent, code == http.StatusRequestedRangeNotSatisfiable:
		first, all, ok := contentRange(resp.Header.Get("Content-Range"))
		whole := code == http.StatusRequestedRangeNotSatisfiable
		if !ok || first != r.Offset() && !whole || whole && all != r.Offset() {
			got := resp.Header.Get("Content-Range")
			return errors.Join(fmt.Errorf("asked for the bytes from %d on, the server answered %s with the range %.80q: starting over", r.Offset(), resp.Status, got), r.Restart())
		}
		total = all
	case code == http.StatusRequestTimeout, code == http.StatusTooManyRequests, code >= http.StatusInternalServerError:
		return fmt.Errorf("the server answered %s", resp.Status)
	default:
		return permanentError{fmt.Errorf("the server answered %s: check the URL, or add the image with another one", resp.Status)}
	}
	if f.size > 0 && total >= 0 && total != f.size {
		return permanentError{fmt.Errorf("the file there has %d bytes, the image says %d: add the image with what is there now: %w", total, f.size, blob.ErrSize)}
	}
	return nil
}

// contentRange reads a Content-Range (RFC 9110 §14.4): where the body begins, and how long the file
// is, -1 when that is not said. With "bytes */100" the first is 100 too: nothing is there from
// there on.
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

// copyTo is io.Copy that says each time that something has come, and tells an error of the disk
// from one of the source.
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

// place is a URL as it may be shown: what comes after a question mark can be a signature.
func place(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return "its URL"
	}
	return u.Scheme + "://" + u.Host + u.EscapedPath()
}

// bare takes an error out of its *url.Error, which has all of the URL in it.
func bare(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}
