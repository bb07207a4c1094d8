package images

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/holdfast-metal/holdfast/internal/images/blob"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

const (
	maxTries    = 5                // without a byte in between
	statTimeout = 15 * time.Second // a peer that has just started reads a file before it says that it has it
	maxPause    = 10 * time.Second
)

// errLeft is what a follower ends with that leaves a URL to the leader.
var errLeft = errors.New("it is on its way to another peer first")

// permanentError is one that another try now does not mend.
type permanentError struct{ error }

// Unwrap returns the reason.
func (e permanentError) Unwrap() error { return e.error }

// bring fetches a file, and tries again for as long as more of it comes.
func (d *Depot) bring(ctx context.Context, f file, prefer string) error {
	select {
	case d.fetches <- struct{}{}:
		defer func() { <-d.fetches }()
	case <-ctx.Done():
		return ctx.Err()
	}
	pause, wrong := d.cfg.Pause, 0
	for try := 1; ; try++ {
		before := d.store.Received(f.sum)
		err := d.once(ctx, f, prefer)
		if err == nil || ctx.Err() != nil || errors.Is(err, errLeft) || errors.Is(err, blob.ErrFull) || errors.Is(err, blob.ErrSize) || errors.As(err, new(permanentError)) {
			d.said(f, err)
			return err
		}
		if errors.Is(err, blob.ErrSum) {
			// What was received before a crash may not be what is on the disk now. It is gone, so
			// the second time counts.
			if wrong++; wrong == 2 {
				d.said(f, err)
				return err
			}
		}
		if d.store.Received(f.sum) > before {
			try, pause = 0, d.cfg.Pause
		}
		if try >= maxTries {
			d.said(f, err)
			return err
		}
		d.log.Info("image file broke off, going on", "sha256", f.sum, "received", d.store.Received(f.sum), "error", err)
		if !sleep(ctx, pause/2+rand.N(pause)) { //nolint:gosec // only spreads tries
			return ctx.Err()
		}
		pause = min(2*pause, max(maxPause, d.cfg.Pause))
	}
}

// said logs how a fetch ended.
func (d *Depot) said(f file, err error) {
	switch {
	case err == nil:
		d.log.Info("image file is here", "sha256", f.sum)
	case errors.Is(err, errLeft), errors.Is(err, context.Canceled):
	default:
		d.log.Warn("image file cannot be fetched", "sha256", f.sum, "error", err)
	}
}

// sleep reports whether the time has passed.
func sleep(ctx context.Context, t time.Duration) bool {
	timer := time.NewTimer(t)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// once tries each source in turn: peers that have the file, then its URL.
func (d *Depot) once(ctx context.Context, f file, prefer string) error {
	if _, ok, err := d.store.Has(ctx, f.sum); ok || ctx.Err() != nil {
		return err
	}
	r, err := d.store.Receive(ctx, f.sum, f.size)
	if errors.Is(err, blob.ErrBusy) {
		return fmt.Errorf("%w: %w", errLeft, err) // to the upload of it
	}
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	if f.size > 0 && r.Offset() == f.size {
		return r.Commit() // it was killed right before
	}
	peers, fetching := d.holders(ctx, f.sum, prefer)
	var failed []error
	for _, id := range peers {
		err := d.fromPeer(ctx, id, f, r)
		d.metrics.fetches.WithLabelValues("peer", outcome(err)).Inc()
		if err == nil || errors.Is(err, blob.ErrFull) || errors.Is(err, blob.ErrSum) {
			return err
		}
		failed = append(failed, err)
	}
	switch {
	case f.url == "" && len(failed) == 0:
		return permanentError{errors.New("no peer that answers has it: upload it again, or start the peers that have it")}
	case f.url == "":
		return errors.Join(failed...)
	case !d.mayAsk(f.sum, fetching):
		return errLeft
	}
	err = d.fromURL(ctx, f, r)
	d.metrics.fetches.WithLabelValues("url", outcome(err)).Inc()
	return err
}

// mayAsk reports whether this peer asks the URL: the leader does, others when that takes too long
// and nobody is at it.
func (d *Depot) mayAsk(sum string, fetching bool) bool {
	if _, self, ok := d.cluster.Leader(); ok && self {
		return true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.troubles[sum]
	return !fetching && t != nil && time.Since(t.since) > d.cfg.Grace
}

// holders lists the peers that have a file, the one that is preferred first, and says whether
// another one is fetching it.
func (d *Depot) holders(ctx context.Context, sum, prefer string) (ids []string, fetching bool) {
	leader, _, _ := d.cluster.Leader()
	for _, a := range d.ask(ctx, d.others(ctx), &internalv1.StatBlobRequest{Sha256: sum}) {
		switch {
		case a.err != nil:
		case a.stat.GetPresent() && a.id == prefer:
			ids = append([]string{a.id}, ids...)
		case a.stat.GetPresent():
			ids = append(ids, a.id)
		case a.stat.GetFetching() && (a.id == leader || a.id < d.cfg.PeerID):
			fetching = true // of two followers that wait for each other, one goes
		}
	}
	return ids, fetching
}

// fromPeer goes on with a file from another peer.
func (d *Depot) fromPeer(ctx context.Context, id string, f file, r *blob.Receiver) error {
	conn, err := d.cluster.PeerConn(id)
	if err != nil {
		return fmt.Errorf("fetch from peer %s: %w", id, err)
	}
	ctx, alive, stop := d.lifeline(ctx)
	defer stop()
	stream, err := internalv1.NewBlobServiceClient(conn).ReadBlob(ctx, &internalv1.ReadBlobRequest{Sha256: f.sum, Offset: r.Offset()})
	if err != nil {
		return fmt.Errorf("fetch from peer %s: %w", id, err)
	}
	for {
		chunk, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return r.Commit()
		}
		if err != nil {
			return fmt.Errorf("fetch from peer %s: %w", id, why(ctx, err))
		}
		alive()
		n, err := r.Write(chunk.GetData())
		d.metrics.fetched.WithLabelValues("peer").Add(float64(n))
		if err != nil {
			return err
		}
	}
}

// errStalled is a source that sends nothing any more.
var errStalled = errors.New("nothing has come for too long")

// lifeline returns a context that ends when alive has not been called for a while.
func (d *Depot) lifeline(ctx context.Context) (_ context.Context, alive, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	t := time.AfterFunc(d.cfg.Stall, func() { cancel(errStalled) })
	return ctx, func() { t.Reset(d.cfg.Stall) }, func() { t.Stop(); cancel(nil) }
}

// why returns the reason of a context that has ended in place of an error that only says so.
func why(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, errStalled) {
		return cause
	}
	return err
}
