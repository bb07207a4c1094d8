package installer

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-metal/holdfast/internal/installer/diskrule"
	"github.com/holdfast-metal/holdfast/internal/installer/peers"
)

// The stages that progress is reported with.
const (
	stageDisk     = "choosing-disk"
	stageDownload = "fetching-image"
	stageWipe     = "wiping"
	stageWrite    = "writing"
	stageFinish   = "finishing"
)

// flushTimeout is how long the last lines of the log are worth waiting for.
const flushTimeout = 10 * time.Second

// work is one order while it is carried out.
type work struct {
	*Installer
	order   peers.Order
	rule    diskrule.Rule
	stage   atomic.Value // string
	percent atomic.Int64
	wiped   []peers.Wiped
}

// Run carries out the work order and reports how it ended. It gives the error that it reported, or
// one that wraps peers.ErrOver when the cluster wants nothing (any more). The machine can be
// restarted then, in any case.
func (in *Installer) Run(ctx context.Context) error {
	wait, cancel := context.WithTimeout(ctx, in.OrderTimeout)
	order, err := in.Client.Order(wait)
	cancel()
	if err != nil {
		in.Logger.Error("there is no work order", "error", err)
		return err
	}
	w := &work{Installer: in, order: order}
	w.stage.Store(stageDisk)
	in.Logger.Info("work order received", "machine_id", order.MachineID, "run_id", order.RunID, "attempt", order.Attempt, "image", order.Image.Name, "disk", order.Disk, "wipe", order.Wipe)

	logCtx, endLog := context.WithCancel(ctx)
	var logs errgroup.Group
	logs.Go(func() error { return in.Log.Run(logCtx, in.Client, order.LogURL) })
	keys, err := w.do(ctx)
	if err = w.tell(ctx, keys, err); err != nil {
		in.Logger.Error("the installation failed", "error", err)
	} else {
		in.Logger.Info("the installation is complete", "host_keys", keys)
	}
	endLog()
	_ = logs.Wait() // it has no error
	flush, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	_ = in.Log.Flush(flush, in.Client, order.LogURL) // whoever misses the last lines sees them on the console
	return err
}

// tell reports how it ended.
func (w *work) tell(ctx context.Context, keys []string, err error) error {
	if errors.Is(err, peers.ErrOver) || ctx.Err() != nil {
		return err // nobody listens
	}
	inv, ip := w.machine.Look()
	inv.Wiped = w.wiped
	r := peers.Report{Status: peers.Complete, Stage: w.stage.Load().(string), Progress: 100, HostKeys: keys, IPAddress: ip}
	if err != nil {
		w.Logger.Error("reporting the failure", "error", err)
		r = peers.Report{Status: peers.Failed, Stage: r.Stage, Progress: int(w.percent.Load()), Error: err.Error(), IPAddress: ip}
	}
	if w.wiped != nil {
		inv.Disks, _ = w.machine.Disks() // told before, without what became of them
		r.Inventory = &inv
	}
	ctx, cancel := context.WithTimeout(ctx, w.TellTimeout)
	defer cancel()
	return errors.Join(err, w.Client.Report(ctx, w.order.ReportURL, r))
}

// do carries out the order. While it does, progress is reported, and an answer that the session is
// over stops it.
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

// start reports what is in the machine. Without an answer nothing goes on.
func (w *work) start(ctx context.Context) error {
	inv, ip := w.machine.Look()
	var err error
	if inv.Disks, err = w.machine.Disks(); err != nil {
		return err
	}
	if inv.Disks == nil {
		inv.Disks = []diskrule.Disk{} // "none" is not "not told"
	}
	return w.Client.Report(ctx, w.order.ReportURL, peers.Report{Status: peers.Started, Stage: stageDisk, Inventory: &inv, IPAddress: ip})
}

// reportProgress returns an error when the session is over, and no other. A report that is on its
// way when the end comes is waited for: it must not arrive after the last one.
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
		err := w.Client.Tell(ctx, w.order.ReportURL, w.progress())
		switch {
		case errors.Is(err, peers.ErrOver):
			return err
		case err != nil && ctx.Err() == nil:
			w.Logger.Warn("no peer took the progress", "error", err)
		}
	}
}

func (w *work) progress() peers.Report {
	return peers.Report{Status: peers.Progress, Stage: w.stage.Load().(string), Progress: int(w.percent.Load())}
}

// install is the work itself.
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
	w.Logger.Info("image written", "image_bytes", got.ImageBytes, "sent_bytes", got.SentBytes, "took", got.Took.Round(time.Millisecond))
	w.percent.Store(100)
	w.stage.Store(stageFinish)
	if err := w.stillThere(chosen); err != nil {
		return nil, err
	}
	return w.machine.Finish(ctx, chosen.Name, w.order)
}

// choose waits until the list of disks stands still: a controller that is still looking at its
// ports must not make an ambiguous rule look like a clear one.
func (w *work) choose(ctx context.Context) (diskrule.Disk, error) {
	const look = 100 * time.Millisecond
	started, changed := time.Now(), time.Now()
	var last []diskrule.Disk
	for {
		disks, err := w.machine.Disks()
		if err != nil {
			return diskrule.Disk{}, err
		}
		if !same(disks, last) {
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
		case <-time.After(look):
		}
	}
}

func same(a, b []diskrule.Disk) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// erase wipes the disk: when that was ordered and cannot be done, nothing is installed on it.
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
