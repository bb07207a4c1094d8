package images

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"time"

	"google.golang.org/grpc"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/images/blob"
	"github.com/holdfast-metal/holdfast/internal/wait"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/auth"
)

const (
	slowestDownload = 64 << 10        // minimum average rate in bytes per second; slower connections are closed
	downloadSlack   = 2 * time.Minute // extra time; longer than a piece needs at that rate
	piece           = 4 << 20         // bytes sent between two checks of the rate
	viewTimeout     = 5 * time.Second // for a linearizable read
	pollEvery       = 50 * time.Millisecond
	retryAfter      = "5" // seconds
)

// Routes adds the downloads. They need no authentication, because a machine that boots from
// the network has no credentials yet. Images must therefore contain no secrets.
func (d *Depot) Routes(m *auth.Mux, _ grpc.ClientConnInterface) {
	m.HandleFunc("GET /images/{name}/{part}", auth.Download(), nil, d.serveName)
	m.HandleFunc("GET /images/sha256/{sum}", auth.Download(), nil, d.serveSum)
	m.HandleFunc("GET /netboot/media/{secret}/{file}", auth.Download(), nil, d.serveMedium)
}

// serveName serves a file of an image.
func (d *Depot) serveName(w http.ResponseWriter, r *http.Request) {
	name, part := r.PathValue("name"), r.PathValue("part")
	f, ok := d.find(r.Context(), func(v *fsm.View) (*holdfastv1.Image_File, bool) {
		image, _ := v.Image(name)
		f := fsm.ImageFile(image, part)
		return f, f != nil
	})
	if !ok {
		message := fmt.Sprintf("image %.80q has no %.20q, or there is no such image (holdfast image list)", name, part)
		http.Error(w, message, http.StatusNotFound)
		return
	}
	w.Header().Set("Cache-Control", "no-cache") // the name may get another file; the ETag changes with it
	d.serve(w, r, f)
}

// serveSum serves a file by its checksum, as long as an image uses it.
func (d *Depot) serveSum(w http.ResponseWriter, r *http.Request) {
	sum := r.PathValue("sum")
	f, ok := d.find(r.Context(), func(v *fsm.View) (*holdfastv1.Image_File, bool) { return v.ImageFileBySum(sum) })
	if !ok {
		http.Error(w, fmt.Sprintf("no image has a file with the SHA-256 %.80q", sum), http.StatusNotFound)
		return
	}
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	d.serve(w, r, f)
}

// find evaluates lookup on this peer's state, and if it finds nothing, on a linearizable
// view.
func (d *Depot) find(
	ctx context.Context,
	lookup func(*fsm.View) (*holdfastv1.Image_File, bool),
) (*holdfastv1.Image_File, bool) {
	if f, ok := lookup(d.state.View()); ok {
		return f, true
	}
	ctx, cancel := context.WithTimeout(ctx, viewTimeout)
	defer cancel()
	v, err := d.cluster.View(ctx)
	if err != nil {
		return nil, false
	}
	return lookup(v)
}

// serve serves a file of an image unchanged.
func (d *Depot) serve(w http.ResponseWriter, r *http.Request, f *holdfastv1.Image_File) {
	h := w.Header()
	d.serveContent(w, r, f, func(open *os.File) (io.ReadSeeker, error) {
		h.Set("ETag", `"`+f.GetSha256()+`"`)
		if raw, err := hex.DecodeString(f.GetSha256()); err == nil {
			h.Set("Repr-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(raw)+":") // RFC 9530
		}
		return open, nil
	})
}

// serveContent serves content made from a file that this peer has. It waits up to
// Config.Patience for a file that is being fetched.
func (d *Depot) serveContent(
	w http.ResponseWriter,
	r *http.Request,
	f *holdfastv1.Image_File,
	with func(*os.File) (io.ReadSeeker, error),
) {
	h := w.Header()
	later := func(err error) {
		h.Set("Retry-After", retryAfter)
		h.Set("Cache-Control", "no-store")
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	}
	from := auth.Source(r)
	if err := d.downloads.acquire(from); err != nil {
		later(err)
		return
	}
	defer d.downloads.release(from)
	open, err := d.await(r.Context(), f)
	if err != nil {
		later(err)
		return
	}
	defer func() { _ = open.Close() }()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("X-Content-Type-Options", "nosniff")
	content, err := with(open)
	if err != nil {
		d.log.Error("cannot serve image file", "error", err)
		h.Set("Cache-Control", "no-store")
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	c := newCounted(w, d.metrics.served.Add, downloadSlack)
	defer c.done()
	http.ServeContent(c, r, "", time.Time{}, content)
}

// await opens a file as soon as this peer has it. If that takes too long, the error contains the
// progress. Errors name no path, because callers are anonymous.
func (d *Depot) await(ctx context.Context, f *holdfastv1.Image_File) (*os.File, error) {
	end := time.Now().Add(d.cfg.Patience)
	for {
		open, err := d.open(ctx, f.GetSha256())
		switch {
		case err == nil:
			return open, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, blob.ErrSum):
			d.log.Error("cannot open image file", "error", err)
			return nil, errors.New("this peer cannot read the file: retry, or use another peer")
		}
		fetching, last := d.status(f.GetSha256())
		if last != nil && !fetching || !time.Now().Add(pollEvery).Before(end) || wait.Sleep(ctx, pollEvery) != nil {
			return nil, d.progressError(f, last)
		}
	}
}

// progressError returns the error for a file that this peer does not have yet, with its
// progress.
func (d *Depot) progressError(f *holdfastv1.Image_File, last error) error {
	words := fmt.Sprintf("this peer has %d", d.store.Received(f.GetSha256()))
	if n := f.GetSizeBytes(); n > 0 {
		words += fmt.Sprintf(" of %d", n)
	}
	words += " bytes of it: retry, or use another peer"
	if last != nil { // not included: it may contain paths and host names, and callers are anonymous
		words += "; the last fetch failed: run `holdfast image get` for its error"
	}
	return errors.New(words)
}
