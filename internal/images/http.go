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
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/auth"
)

const (
	slowestDownload = 64 << 10        // bytes a second on average, below that a connection is closed
	downloadSlack   = 2 * time.Minute // besides; more than a piece takes at that rate
	piece           = 4 << 20         // bytes that are sent between two checks of the rate
	lookTimeout     = 5 * time.Second // for a look at what the leader knows
	pollEvery       = 50 * time.Millisecond
	retryAfter      = "5" // seconds
)

// Routes adds the downloads. Everybody may have them who reaches the port: a machine that boots
// from the network has nothing yet that it could show, so there must be no secret in an image.
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
		http.Error(w, fmt.Sprintf("image %.80q has no %.20q, or there is no such image (holdfast image list)", name, part), http.StatusNotFound)
		return
	}
	w.Header().Set("Cache-Control", "no-cache") // another one may come under this name; the tag tells
	d.serve(w, r, f)
}

// serveSum serves a file by its sum, as long as an image has it.
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

// find looks at this peer's state, and when there is nothing, whether the leader knows more.
func (d *Depot) find(ctx context.Context, look func(*fsm.View) (*holdfastv1.Image_File, bool)) (*holdfastv1.Image_File, bool) {
	if f, ok := look(d.state.View()); ok {
		return f, true
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	v, err := d.cluster.View(ctx)
	if err != nil {
		return nil, false
	}
	return look(v)
}

// serve writes a file of an image as it is.
func (d *Depot) serve(w http.ResponseWriter, r *http.Request, f *holdfastv1.Image_File) {
	h := w.Header()
	d.hand(w, r, f, func(open *os.File) (io.ReadSeeker, error) {
		h.Set("ETag", `"`+f.GetSha256()+`"`)
		if raw, err := hex.DecodeString(f.GetSha256()); err == nil {
			h.Set("Repr-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(raw)+":") // RFC 9530
		}
		return open, nil
	})
}

// hand serves what is made of a file that this peer has whole, and waits a while for one that is on
// its way.
func (d *Depot) hand(w http.ResponseWriter, r *http.Request, f *holdfastv1.Image_File, with func(*os.File) (io.ReadSeeker, error)) {
	from := auth.Source(r)
	if err := d.downloads.take(from); err != nil {
		w.Header().Set("Retry-After", retryAfter)
		w.Header().Set("Cache-Control", "no-store")
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer d.downloads.leave(from)
	open, err := d.await(r.Context(), f)
	if err != nil {
		w.Header().Set("Retry-After", retryAfter)
		w.Header().Set("Cache-Control", "no-store")
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer func() { _ = open.Close() }()
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("X-Content-Type-Options", "nosniff")
	content, err := with(open)
	if err != nil {
		d.log.Error("cannot serve an image file", "error", err)
		h.Set("Cache-Control", "no-store")
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	c := newCounted(w, d.metrics.served.Add, downloadSlack)
	defer c.done()
	http.ServeContent(c, r, "", time.Time{}, content)
}

// await opens a file, as soon as this peer has it, or says how far it is.
func (d *Depot) await(ctx context.Context, f *holdfastv1.Image_File) (*os.File, error) {
	end := time.Now().Add(d.cfg.Patience)
	for {
		open, err := d.store.Open(ctx, f.GetSha256())
		if err == nil {
			return open, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if !errors.Is(err, fs.ErrNotExist) {
			d.log.Error("cannot open image file", "error", err)
		}
		fetching, last := d.status(f.GetSha256())
		if last != nil && !fetching || !time.Now().Add(pollEvery).Before(end) || !sleep(ctx, pollEvery) {
			return nil, d.far(f, last)
		}
	}
}

// far words how far this peer is with a file.
func (d *Depot) far(f *holdfastv1.Image_File, last error) error {
	words := fmt.Sprintf("this peer has %d", d.store.Received(f.GetSha256()))
	if n := f.GetSizeBytes(); n > 0 {
		words += fmt.Sprintf(" of %d", n)
	}
	words += " bytes of it: try again, or another peer"
	if last != nil { // it may tell of paths and hosts: not to everybody
		words += "; the last fetch failed, `holdfast image get` says why"
	}
	return errors.New(words)
}
