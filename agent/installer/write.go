package installer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	"github.com/holdfast-metal/holdfast/agent/installer/image"
	"github.com/holdfast-metal/holdfast/internal/diskrule"
)

// download returns the download of the image.
func (w *work) download(ctx context.Context) *image.Download {
	im := w.order.Image
	return image.NewDownload(ctx, image.DownloadConfig{
		Name: im.Name, URLs: w.urls(), Size: im.SizeBytes, HTTP: w.HTTP, GiveUp: w.GiveUp, Logger: w.Logger,
	})
}

// urls returns the URLs of the image: the ordered one, the same path on the other peers if
// it is one of theirs, and all peers by its checksum. Peers that answered last come first.
func (w *work) urls() []string {
	im, servers := w.order.Image, w.Client.Servers()
	var all []string
	add := func(u string) {
		if !slices.Contains(all, u) {
			all = append(all, u)
		}
	}
	u, err := url.Parse(im.URL)
	ours := err == nil && (u.Host == "" ||
		slices.ContainsFunc(servers, func(s string) bool { return strings.HasPrefix(im.URL, s+"/") }))
	if !ours {
		add(im.URL)
	}
	for _, s := range servers {
		if ours {
			base, _ := url.Parse(s)
			base.Path, base.RawPath, base.RawQuery = u.Path, u.RawPath, u.RawQuery
			add(base.String())
		}
	}
	for _, s := range servers {
		add(s + "/images/sha256/" + im.SHA256)
	}
	return all
}

// job returns the Job that writes the image to a disk.
func (w *work) job(chosen diskrule.Disk, prepare func(context.Context) (bool, error)) image.Job {
	im := w.order.Image
	return image.Job{
		Name:        im.Name,
		SHA256:      im.SHA256,
		Compression: im.Compression,
		Format:      im.Format,
		DiskSize:    chosen.SizeBytes,
		Prepare:     prepare,
		Progress:    func(p int) { w.percent.Store(int64(min(p, 99))) },
	}
}

// write writes a disk image to the disk.
func (w *work) write(ctx context.Context, chosen diskrule.Disk) (got image.Result, err error) {
	disk, err := w.machine.Open(chosen.Name)
	if err != nil {
		return image.Result{}, err
	}
	defer func() { err = errors.Join(err, disk.Close()) }()
	src := w.download(ctx)
	defer func() { _ = src.Close() }()
	job := w.job(chosen, func(ctx context.Context) (bool, error) { return w.prepare(ctx, chosen, disk) })
	if s, ok := disk.(Sectored); ok {
		job.SectorSize = s.SectorSize()
	}
	return job.Write(ctx, src, disk)
}

// unpack installs a root file system. An open disk cannot be mounted, so it is open only
// until its boot sectors are erased.
func (w *work) unpack(ctx context.Context, chosen diskrule.Disk) (image.Result, error) {
	m, ok := w.machine.(Unpacker)
	if !ok {
		return image.Result{}, fmt.Errorf("unpack image %s: this machine cannot: make a disk image of it and add that",
			w.order.Image.Name)
	}
	if err := m.CanUnpack(chosen.Name); err != nil {
		return image.Result{}, fmt.Errorf("unpack image %s, which is TAR: %w: nothing was written",
			w.order.Image.Name, err)
	}
	src := w.download(ctx)
	defer func() { _ = src.Close() }()
	prepare := func(ctx context.Context) (zeroed bool, err error) {
		disk, err := w.machine.Open(chosen.Name)
		if err != nil {
			return false, err
		}
		defer func() { err = errors.Join(err, disk.Close()) }()
		if zeroed, err = w.prepare(ctx, chosen, disk); err != nil {
			return false, err
		}
		return zeroed, image.Clear(disk, chosen.SizeBytes)
	}
	return w.job(chosen, prepare).Unpack(ctx, src, func(ctx context.Context, archive io.Reader) error {
		return m.Unpack(ctx, chosen.Name, archive)
	})
}

// prepare runs when nothing has been written yet. The disk is open, so its name can no
// longer be assigned to another one. But between the choice and Open it could, so prepare
// checks again.
func (w *work) prepare(ctx context.Context, chosen diskrule.Disk, disk Disk) (zeroed bool, err error) {
	name := chosen.Name
	if err := w.stillChosen(chosen); err != nil {
		return false, err
	}
	w.stage.Store(stageWrite)
	if w.order.Wipe {
		w.stage.Store(stageWipe)
	}
	if err := w.Client.Report(ctx, w.order.ReportURL, w.progress()); err != nil {
		return false, err
	}
	if w.order.Wipe {
		if err := w.erase(ctx, name, disk); err != nil {
			return false, err
		}
		w.stage.Store(stageWrite)
		if err := w.Client.Report(ctx, w.order.ReportURL, w.progress()); err != nil {
			return false, err
		}
		zeroed = true
	}
	w.Logger.Info("writing the image", "disk", name)
	return zeroed, nil
}

// stillChosen checks that the rule still selects this disk: names change when a controller
// restarts or a disk is plugged in.
func (w *work) stillChosen(chosen diskrule.Disk) error {
	disks, err := w.machine.Disks()
	if err != nil {
		return err
	}
	again, err := w.rule.Choose(disks)
	if err == nil && again != chosen {
		err = fmt.Errorf("the disk rule now selects %s", again)
	}
	if err != nil {
		return fmt.Errorf("write to %s: the disks of this machine have changed since it was chosen, "+
			"and nothing was written: %w", chosen, err)
	}
	return nil
}

// stillThere checks that the name still belongs to the written disk. The rule no longer
// matters.
func (w *work) stillThere(chosen diskrule.Disk) error {
	disks, err := w.machine.Disks()
	if err != nil {
		return err
	}
	for _, d := range disks {
		switch {
		case d.Name != chosen.Name:
		case d == chosen:
			return nil
		default:
			return fmt.Errorf("finish %s: that is another disk now: %s: "+
				"the image is complete, but not adapted to this machine: install again", chosen, d)
		}
	}
	return fmt.Errorf("finish %s: the disk is gone since the image was written: "+
		"check its cable and its controller, and install again", chosen)
}
