package installer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-metal/holdfast/agent/installer/peers"
	"github.com/holdfast-metal/holdfast/internal/diskrule"
)

// Stages of the reported progress.
const (
	stageDisk     = "choosing-disk"
	stageDownload = "fetching-image"
	stageWipe     = "wiping"
	stageWrite    = "writing"
	stageFinish   = "finishing"
)

// flushTimeout bounds sending the last lines of the log.
const flushTimeout = 10 * time.Second

// work is a work order in progress.
type work struct {
	*Installer
	order   peers.Order
	rule    diskrule.Rule
	stage   atomic.Value // string
	percent atomic.Int64
	wiped   []peers.Wiped
}

// Run carries out the work order and reports the outcome. It returns the error that it
// reported, or one that wraps peers.ErrOver if no installation is ordered (any more). In
// any case, the machine can then be restarted.
func (in *Installer) Run(ctx context.Context) error {
	wait, cancel := context.WithTimeout(ctx, in.OrderTimeout)
	order, err := in.Client.Order(wait)
	cancel()
	if err != nil {
		in.Logger.Error("cannot get a work order", "error", err)
		return err
	}
	w := &work{Installer: in, order: order}
	w.stage.Store(stageDisk)
	in.Logger.Info("work order received", "machine_id", order.MachineID, "run_id", order.RunID,
		"attempt", order.Attempt, "image", order.Image.Name, "disk", order.Disk, "wipe", order.Wipe)

	logCtx, endLog := context.WithCancel(ctx)
	var logs errgroup.Group
	logs.Go(func() error { return in.Log.Run(logCtx, in.Client, order.LogURL) })
	keys, err := w.do(ctx)
	if err = w.reportEnd(ctx, keys, err); err != nil {
		in.Logger.Error("installation failed", "error", err)
	} else {
		in.Logger.Info("installation complete", "host_keys", keys)
	}
	endLog()
	_ = logs.Wait() // it has no error
	flush, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	_ = in.Log.Flush(flush, in.Client, order.LogURL) // the console shows the last lines too
	return err
}

// reportEnd reports the outcome.
func (w *work) reportEnd(ctx context.Context, keys []string, err error) error {
	if errors.Is(err, peers.ErrOver) || ctx.Err() != nil {
		return err // the cluster no longer accepts reports
	}
	inv, ip := w.machine.Inventory()
	inv.Wiped = w.wiped
	r := peers.Report{
		Status: peers.Complete, Stage: w.stage.Load().(string), Progress: 100, HostKeys: keys, IPAddress: ip,
	}
	if err != nil {
		w.Logger.Error("installation failed, reporting it", "error", err)
		r = peers.Report{
			Status: peers.Failed, Stage: r.Stage, Progress: int(w.percent.Load()), Error: err.Error(), IPAddress: ip,
		}
	}
	if w.wiped != nil {
		inv.Disks, _ = w.machine.Disks() // with the results of the erasures
		r.Inventory = &inv
	}
	ctx, cancel := context.WithTimeout(ctx, w.ReportTimeout)
	defer cancel()
	return errors.Join(err, w.Client.Report(ctx, w.order.ReportURL, r))
}

// do carries out the order. Meanwhile it reports progress, and stops if a peer answers that
// the session is over.
func (w *work) do(ctx context.Context) ([]string, error) {
	if err := w.order.Check(); err != nil {
		return nil, err
	}
	var err error
	if w.rule, err = diskrule.Parse(w.order.Disk); err != nil {
		return nil, err
	}
	if err := w.start(ctx); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancelCause(ctx)
	end := make(chan struct{})
	var group errgroup.Group
	group.Go(func() error {
		if err := w.reportProgress(ctx, end); err != nil {
			stop(err)
		}
		return nil
	})
	keys, err := w.install(ctx)
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w (%w)", err, cause)
	}
	close(end)
	_ = group.Wait() // it has no error
	stop(nil)
	return keys, err
}

// start reports the inventory. It blocks until a peer has accepted it.
func (w *work) start(ctx context.Context) error {
	inv, ip := w.machine.Inventory()
	var err error
	if inv.Disks, err = w.machine.Disks(); err != nil {
		return err
	}
	if inv.Disks == nil {
		inv.Disks = []diskrule.Disk{} // an empty list, not an unknown one
	}
	r := peers.Report{Status: peers.Started, Stage: stageDisk, Inventory: &inv, IPAddress: ip}
	return w.Client.Report(ctx, w.order.ReportURL, r)
}

// reportProgress returns an error only if the session is over. At the end it waits for a
// report in progress, which must not arrive after the last one.
func (w *work) reportProgress(ctx context.Context, end <-chan struct{}) error {
	t := time.NewTicker(w.Every)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-end:
			return nil
		case <-t.C:
		}
		err := w.Client.ReportOnce(ctx, w.order.ReportURL, w.progress())
		switch {
		case errors.Is(err, peers.ErrOver):
			return err
		case err != nil && ctx.Err() == nil:
			w.Logger.Warn("cannot report progress", "error", err)
		}
	}
}

func (w *work) progress() peers.Report {
	return peers.Report{Status: peers.Progress, Stage: w.stage.Load().(string), Progress: int(w.percent.Load())}
}

// install chooses the disk, writes the image and finishes the disk.
func (w *work) install(ctx context.Context) ([]string, error) {
	chosen, err := w.choose(ctx)
	if err != nil {
		return nil, err
	}
	w.Logger.Info("disk chosen", "disk", chosen.String())
	w.stage.Store(stageDownload)
	put := w.write
	if w.order.Image.Format == "TAR" {
		put = w.unpack
	}
	got, err := put(ctx, chosen)
	if err != nil {
		return nil, err
	}
	w.Logger.Info("image written",
		"image_bytes", got.ImageBytes, "sent_bytes", got.SentBytes, "took", got.Took.Round(time.Millisecond))
	w.percent.Store(100)
	w.stage.Store(stageFinish)
	if err := w.stillThere(chosen); err != nil {
		return nil, err
	}
	return w.machine.Finish(ctx, chosen.Name, w.order)
}

// choose waits until the list of disks is stable: while a controller is still scanning its
// ports, an ambiguous rule may appear to select one disk.
func (w *work) choose(ctx context.Context) (diskrule.Disk, error) {
	const poll = 100 * time.Millisecond
	started, changed := time.Now(), time.Now()
	var last []diskrule.Disk
	for {
		disks, err := w.machine.Disks()
		if err != nil {
			return diskrule.Disk{}, err
		}
		if !slices.Equal(disks, last) {
			last, changed = disks, time.Now()
		}
		chosen, err := w.rule.Choose(disks)
		steady := time.Since(changed) >= w.Settle
		if err == nil && steady {
			return chosen, nil
		}
		if err != nil && steady && time.Since(started) >= w.DiskTimeout {
			return diskrule.Disk{}, err
		}
		select {
		case <-ctx.Done():
			return diskrule.Disk{}, context.Cause(ctx)
		case <-time.After(poll):
		}
	}
}

// erase erases the disk. If that was ordered and fails, nothing is installed on it.
func (w *work) erase(ctx context.Context, name string, disk Disk) error {
	e, ok := disk.(Eraser)
	if !ok {
		return fmt.Errorf("wipe %s: this kind of disk cannot be wiped", name)
	}
	w.Logger.Info("wiping", "disk", name)
	method, err := e.Erase(ctx)
	result := peers.Wiped{Disk: name, Method: method}
	if err != nil {
		result.Error = err.Error()
		err = fmt.Errorf("wipe %s: %w", name, err)
	}
	w.wiped = append(w.wiped, result)
	w.Logger.Info("wiped", "disk", name, "method", method, "error", result.Error)
	return err
}
