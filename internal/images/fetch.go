package images

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/holdfast-metal/holdfast/internal/images/blob"
	"github.com/holdfast-metal/holdfast/internal/wait"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

const (
	maxTries    = 5                // in a row without progress
	statTimeout = 15 * time.Second // a peer that has just started verifies a file before it answers
	maxPause    = 10 * time.Second
)

// errLeft is returned by a follower that leaves a URL to the leader.
var errLeft = errors.New("another peer fetches it first")

// permanentError is an error that a retry cannot fix.
type permanentError struct{ error }

// Unwrap returns the cause.
func (e permanentError) Unwrap() error { return e.error }

// fetchWithRetry fetches a file. It retries as long as each attempt makes progress.
func (d *Depot) fetchWithRetry(ctx context.Context, f file, prefer string) error {
	select {
	case d.fetches <- struct{}{}:
		defer func() { <-d.fetches }()
	case <-ctx.Done():
		return ctx.Err()
	}
	pause, wrong := d.cfg.Pause, 0
	for try := 1; ; try++ {
		before := d.store.Received(f.sum)
		err := d.fetchOnce(ctx, f, prefer)
		if errors.Is(err, blob.ErrSum) {
			wrong++
		}
		if d.store.Received(f.sum) > before {
			try, pause = 0, d.cfg.Pause
		}
		// The first wrong checksum may come from a partial file that a crash damaged. It has been
		// discarded, so a second one is final.
		if err == nil || ctx.Err() != nil || isFinal(err) || wrong == 2 || try >= maxTries {
			d.logResult(f, err)
			return err
		}
		d.log.Info("image fetch interrupted, will resume",
			"sha256", f.sum, "received", d.store.Received(f.sum), "error", err)
		if wait.Sleep(ctx, pause/2+rand.N(pause)) != nil { //nolint:gosec // jitter
			return ctx.Err()
		}
		pause = min(2*pause, max(maxPause, d.cfg.Pause))
	}
}

// isFinal reports whether a retry would fail alike.
func isFinal(err error) bool {
	return errors.Is(err, errLeft) || errors.Is(err, blob.ErrFull) || errors.Is(err, blob.ErrSize) ||
		errors.As(err, new(permanentError))
}

// logResult logs the result of a fetch.
func (d *Depot) logResult(f file, err error) {
	switch {
	case err == nil:
		d.log.Info("image file fetched", "sha256", f.sum)
	case errors.Is(err, errLeft), errors.Is(err, context.Canceled):
	default:
		d.log.Warn("image fetch failed", "sha256", f.sum, "error", err)
	}
}

// fetchOnce tries each source once: the peers that have the file, then its URL.
func (d *Depot) fetchOnce(ctx context.Context, f file, prefer string) error {
	if _, ok, err := d.has(ctx, f.sum); ok || ctx.Err() != nil {
		return err
	}
	r, err := d.store.Receive(ctx, f.sum, f.size)
	if errors.Is(err, blob.ErrBusy) {
		return fmt.Errorf("%w: %w", errLeft, err) // an upload is receiving it
	}
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	if f.size > 0 && r.Offset() == f.size {
		return r.Commit() // complete, but interrupted before the commit
	}
	peers, fetching := d.holders(ctx, f.sum, prefer)
	var failed []error
	for _, id := range peers {
		err := d.fromPeer(ctx, id, f, r)
		d.metrics.fetches.WithLabelValues("peer", result(err)).Inc()
		if err == nil || errors.Is(err, blob.ErrFull) || errors.Is(err, blob.ErrSum) {
			return err
		}
		failed = append(failed, err)
	}
	switch {
	case f.url == "" && len(failed) == 0:
		return permanentError{errors.New("no reachable peer has it: upload it again, or start the peers that have it")}
	case f.url == "":
		return errors.Join(failed...)
	case !d.mayFetchURL(f.sum, fetching):
		return errLeft
	}
	err = d.fromURL(ctx, f, r)
	d.metrics.fetches.WithLabelValues("url", result(err)).Inc()
	return err
}

// mayFetchURL reports whether this peer may fetch the URL. The leader may. A follower may once
// Grace has passed and no other peer is fetching the file.
func (d *Depot) mayFetchURL(sum string, fetching bool) bool {
	if _, self, ok := d.cluster.Leader(); ok && self {
		return true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.troubles[sum]
	return !fetching && t != nil && time.Since(t.since) > d.cfg.Grace
}

// holders returns the peers that have a file, the preferred one first. It also reports
// whether another peer is fetching the file.
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
			fetching = true // of two followers that would wait for each other, one fetches
		}
	}
	return ids, fetching
}

// fromPeer starts or resumes a file from another peer.
func (d *Depot) fromPeer(ctx context.Context, id string, f file, r *blob.Receiver) error {
	conn, err := d.cluster.PeerConn(id)
	if err != nil {
		return fmt.Errorf("fetch from peer %s: %w", id, err)
	}
	ctx, alive, stop := d.lifeline(ctx)
	defer stop()
	req := &internalv1.ReadBlobRequest{Sha256: f.sum, Offset: r.Offset()}
	stream, err := internalv1.NewBlobServiceClient(conn).ReadBlob(ctx, req)
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

// errStalled is returned if a source stops sending.
var errStalled = errors.New("the source sent nothing for too long")

// lifeline returns a context that is canceled if alive is not called within Config.Stall.
func (d *Depot) lifeline(ctx context.Context) (_ context.Context, alive, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	t := time.AfterFunc(d.cfg.Stall, func() { cancel(errStalled) })
	return ctx, func() { t.Reset(d.cfg.Stall) }, func() { t.Stop(); cancel(nil) }
}

// why returns errStalled if that canceled ctx, and err otherwise.
func why(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, errStalled) {
		return cause
	}
	return err
}
