package install

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/holdfast-metal/holdfast/cmd/holdfast-agent/install/diskrule"
	"github.com/holdfast-metal/holdfast/cmd/holdfast-agent/install/image"
)

// download prepares the image's download.
func (w *work) download(ctx context.Context) *image.Download {
	im := w.order.Image
	return image.NewDownload(ctx, image.DownloadConfig{Name: im.Name, URLs: w.urls(), Size: im.SizeBytes, HTTP: w.HTTP, GiveUp: w.GiveUp, Logger: w.Logger})
}

// job is the image on its way to a disk.
func (w *work) job(chosen diskrule.Disk, prepare func(context.Context) (bool, error)) image.Job {
	im := w.order.Image
	return image.Job{
		Name: im.Name, SHA256: im.SHA256, Compression: im.Compression, Format: im.Format, DiskSize: chosen.SizeBytes, Prepare: prepare,
		Progress: func(p int) { w.percent.Store(int64(min(p, 99))) },
	}
}

// write brings the image of a disk to the disk.
func (w *work) write(ctx context.Context, chosen diskrule.Disk) (got image.Result, err error) {
	disk, err := w.machine.Open(chosen.Name)
	if err != nil {
		return image.Result{}, err
	}
	defer func() { err = errors.Join(err, disk.Close()) }()
	src := w.download(ctx)
	defer func() { _ = src.Close() }()
	prepare := func(ctx context.Context) (bool, error) { return w.prepare(ctx, chosen.Name, disk) }
	return w.job(chosen, prepare).Write(ctx, src, disk)
}

// unpack makes a disk of a root file system. A disk that is open cannot be mounted, so it is open only until its boot sectors are gone.
func (w *work) unpack(ctx context.Context, chosen diskrule.Disk) (image.Result, error) {
	m, ok := w.machine.(Unpacker)
	if !ok {
		return image.Result{}, fmt.Errorf("unpack image %s: this machine cannot: make a disk image of it and add that", w.order.Image.Name)
	}
	if err := m.CanUnpack(chosen.Name); err != nil {
		return image.Result{}, fmt.Errorf("unpack image %s, which is TAR: %w: nothing was written", w.order.Image.Name, err)
	}
	src := w.download(ctx)
	defer func() { _ = src.Close() }()
	prepare := func(ctx context.Context) (zeroed bool, err error) {
		disk, err := w.machine.Open(chosen.Name)
		if err != nil {
			return false, err
		}
		defer func() { err = errors.Join(err, disk.Close()) }()
		if zeroed, err = w.prepare(ctx, chosen.Name, disk); err != nil {
			return false, err
		}
		return zeroed, image.Clear(disk, chosen.SizeBytes)
	}
	return w.job(chosen, prepare).Unpack(ctx, src, func(ctx context.Context, archive io.Reader) error { return m.Unpack(ctx, chosen.Name, archive) })
}
