package images

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/images/blob"
)

// look fetches what this peer should have and has not. Each peer looks for itself, so a peer that
// was away, or has lost its disk, gets everything again.
func (d *Depot) look(ctx context.Context) {
	missing := 0
	known := map[string]bool{}
	for image := range d.state.View().Images("") {
		for _, f := range fsm.ImageFiles(image) {
			if known[f.GetSha256()] || ctx.Err() != nil {
				continue
			}
			known[f.GetSha256()] = true
			if !d.lookFor(ctx, file{sum: f.GetSha256(), url: f.GetUrl(), size: f.GetSizeBytes()}) {
				missing++
			}
		}
	}
	d.metrics.missing.Set(float64(missing))
	d.mu.Lock()
	defer d.mu.Unlock()
	for sum, t := range d.troubles {
		if !known[sum] && time.Since(t.since) > time.Hour {
			delete(d.troubles, sum) // of an upload, or of an image that is gone
		}
	}
}

// lookFor reports whether the peer has a file, and begins to fetch it if not.
func (d *Depot) lookFor(ctx context.Context, f file) bool {
	_, ok, err := d.store.Has(ctx, f.sum)
	if ok {
		return true
	}
	if errors.Is(err, blob.ErrSum) {
		d.metrics.damaged.Inc()
		d.log.Error("image file was damaged on disk: it is fetched again", "sha256", f.sum, "error", err)
	} else if err != nil && ctx.Err() == nil {
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
		d.fetch(f, "") //nolint:contextcheck // a fetch lives as long as Run, not as long as who asks for it
	}
	return false
}

// sweep marks what images have as used, and removes what none had for long. It wants a state that
// is not old: a peer that has just started knows no images until it has caught up.
func (d *Depot) sweep(ctx context.Context, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	v, err := d.cluster.View(ctx)
	if err != nil {
		return // no leader: another time
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
		d.log.Warn("cannot tidy up images", "error", err)
	}
	if len(removed) > 0 {
		d.log.Info("removed files that no image has", "files", len(removed))
	}
}
