package images

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/images/blob"
)

// fetchMissing fetches the files of images that this peer does not have. Each peer checks
// for itself, so one that was down or lost its disk fetches everything again.
func (d *Depot) fetchMissing(ctx context.Context) {
	missing := 0
	known := map[string]bool{}
	for image := range d.state.View().Images("") {
		for _, f := range fsm.ImageFiles(image) {
			if known[f.GetSha256()] || ctx.Err() != nil {
				continue
			}
			known[f.GetSha256()] = true
			if !d.ensure(ctx, file{sum: f.GetSha256(), url: f.GetUrl(), size: f.GetSizeBytes()}) {
				missing++
			}
		}
	}
	d.metrics.missing.Set(float64(missing))
	d.mu.Lock()
	defer d.mu.Unlock()
	for sum, t := range d.troubles {
		if !known[sum] && time.Since(t.since) > time.Hour {
			delete(d.troubles, sum) // an upload, or a deleted image
		}
	}
}

// ensure reports whether the peer has a file. If not, it starts a fetch.
func (d *Depot) ensure(ctx context.Context, f file) bool {
	_, ok, err := d.has(ctx, f.sum)
	if ok {
		return true
	}
	if err != nil && !errors.Is(err, blob.ErrSum) && ctx.Err() == nil {
		d.log.Error("cannot read image file", "sha256", f.sum, "error", err)
	}
	d.mu.Lock()
	t := d.troubles[f.sum]
	if t == nil {
		t = &trouble{since: time.Now()}
		d.troubles[f.sum] = t
	}
	wait := d.flights[f.sum] != nil || time.Now().Before(t.next)
	d.mu.Unlock()
	if !wait {
		d.fetch(f, "") //nolint:contextcheck // a fetch lives as long as Run, not as long as its caller
	}
	return false
}

// has is blob.Store.Has that counts and logs a damaged file.
func (d *Depot) has(ctx context.Context, sum string) (size int64, ok bool, err error) {
	size, ok, err = d.store.Has(ctx, sum)
	d.noteDamage(sum, err)
	return size, ok, err
}

// open is blob.Store.Open that counts and logs a damaged file.
func (d *Depot) open(ctx context.Context, sum string) (*os.File, error) {
	f, err := d.store.Open(ctx, sum)
	d.noteDamage(sum, err)
	return f, err
}

// noteDamage counts and logs a damaged file. The store has removed it, and reports it only once.
func (d *Depot) noteDamage(sum string, err error) {
	if errors.Is(err, blob.ErrSum) {
		d.metrics.damaged.Inc()
		d.log.Error("image file damaged on disk, will fetch it again", "sha256", sum, "error", err)
	}
}

// sweep marks the files of images as used and removes those that have been unused for long.
// It needs a linearizable view, because a peer that has just started knows no images until
// it has caught up.
func (d *Depot) sweep(ctx context.Context, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	v, err := d.cluster.View(ctx)
	if err != nil {
		return // no leader: the next sweep retries
	}
	for image := range v.Images("") {
		for _, f := range fsm.ImageFiles(image) {
			d.store.Keep(f.GetSha256(), now)
		}
	}
	removed, err := d.store.Sweep(now.Add(-d.cfg.KeepUnused), func(sum string) bool {
		_, used := v.ImageFileBySum(sum)
		return used
	})
	if err != nil {
		d.log.Warn("removing unused image files failed, will retry", "error", err)
	}
	if len(removed) > 0 {
		d.log.Info("removed unused image files", "files", len(removed))
	}
}
