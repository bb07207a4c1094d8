package image

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/holdfast-metal/holdfast/internal/installer/table"
)

// chunk is what is written at once, in bytes.
const chunk = 1 << 20

// Source is where the bytes come from: a Download.
type Source interface {
	io.Reader
	Received() int64
	Size() int64
	Sum() string
}

// Job is one image on its way to one disk.
type Job struct {
	Name        string // of the image
	SHA256      string // of the bytes as they are sent, in lower case
	Compression string // NONE, GZIP or ZSTD
	Format      string // RAW (default), QCOW2, which is kept whole before anything is written, or TAR, which is for Unpack
	TempDir     string // where that is kept; default that of the system, which is in memory in the installer
	DiskSize    uint64 // bytes
	SectorSize  int    // bytes of a logical sector of the disk; default 512. Unpack does not look at it
	// Prepare is asked once, when the image is known to fit as far as that can be known, right
	// before the first byte is written: it may erase the disk, and says whether it reads as zeros
	// now. An error stops the job. Nil: nothing is to be prepared.
	Prepare func(ctx context.Context) (zeroed bool, err error)
	// Progress is called as the work goes on, with per cent; it must not block.
	Progress func(percent int)
}

// Result is what was written.
type Result struct {
	ImageBytes int64 // after decompression
	SentBytes  int64 // as they came
	Took       time.Duration
}

// Write streams an image to a disk and syncs it. When it fails, the disk has no boot code and no
// partition table, unless it fails before anything was written: then it is as it was.
func (j Job) Write(ctx context.Context, src Source, disk Disk) (Result, error) {
	start := time.Now()
	if j.Compression == "NONE" && src.Size() > 0 && uint64(src.Size()) > j.DiskSize {
		return Result{}, &TooSmallError{Image: j.Name, Need: uint64(src.Size()), Have: j.DiskSize}
	}
	plain, closeIt, err := j.decompress(src)
	if err != nil {
		return Result{}, j.explain(ctx, src, err)
	}
	defer closeIt()
	progress := func(int64) { j.report(100*src.Received(), src.Size()) }
	if j.Format == formatQCOW2 {
		disk, err := j.stage(ctx, src, plain)
		if err != nil {
			return Result{}, err
		}
		defer disk.end()
		plain, progress = disk, func(at int64) { j.report(50*disk.Size()+50*at, disk.Size()) }
	}
	head := make([]byte, HeadSize)
	n, err := fill(plain, head)
	head = head[:n]
	if err != nil && !errors.Is(err, io.EOF) {
		return Result{}, j.explain(ctx, src, err)
	}
	if n == 0 {
		return Result{}, j.explain(ctx, src, errors.New("it is empty"))
	}
	if need := max(table.Need(head), uint64(n)); need > j.DiskSize {
		return Result{}, &TooSmallError{Image: j.Name, Need: need, Have: j.DiskSize}
	}
	if j.SectorSize > 0 && !table.Fits(head, j.SectorSize) {
		return Result{}, fmt.Errorf("write image %s: its partition table is for disks with sectors of 512 bytes, and those of this one have %d: nothing was written: "+
			"use a disk with 512 (many NVMe can be formatted so: nvme format --lbaf), or an image made for %d", j.Name, j.SectorSize, j.SectorSize)
	}
	zeroed := false
	if j.Prepare != nil {
		if zeroed, err = j.Prepare(ctx); err != nil {
			return Result{}, err
		}
	}
	if err := clearEnds(disk, j.DiskSize); err != nil {
		return Result{}, err
	}
	end, err := j.stream(ctx, src, plain, disk, int64(n), zeroed, progress)
	if err != nil {
		return Result{}, err
	}
	if err := j.checkSum(src); err != nil {
		return Result{}, err
	}
	if err := disk.Sync(); err != nil {
		return Result{}, fmt.Errorf("write image %s: the disk failed to take it: %w", j.Name, err)
	}
	if _, err := disk.WriteAt(head, 0); err != nil {
		return Result{}, fmt.Errorf("write the start of image %s: %w", j.Name, err)
	}
	if err := disk.Sync(); err != nil {
		return Result{}, fmt.Errorf("write the start of image %s: the disk failed to take it: %w", j.Name, err)
	}
	return Result{ImageBytes: end, SentBytes: src.Received(), Took: time.Since(start)}, nil
}

// stream writes what comes behind the head, and reads the source to its end.
func (j Job) stream(ctx context.Context, src Source, plain io.Reader, disk Disk, at int64, zeroed bool, progress func(at int64)) (int64, error) {
	buf, zeros := make([]byte, chunk), make([]byte, chunk)
	for {
		if err := context.Cause(ctx); err != nil {
			return at, fmt.Errorf("write image %s: stopped after %d bytes: %w", j.Name, at, err)
		}
		n, rerr := fill(plain, buf)
		if n > 0 {
			if uint64(at)+uint64(n) > j.DiskSize {
				return at, &TooSmallError{Image: j.Name, Need: uint64(at) + uint64(n), Have: j.DiskSize, AtLeast: true, Wrote: true}
			}
			if !zeroed || !bytes.Equal(buf[:n], zeros[:n]) {
				if _, err := disk.WriteAt(buf[:n], at); err != nil {
					return at, fmt.Errorf("write image %s: the disk failed at byte %d: %w", j.Name, at, err)
				}
			}
			at += int64(n)
			progress(at)
		}
		switch {
		case errors.Is(rerr, io.EOF):
			if _, err := io.Copy(io.Discard, src); err != nil {
				return at, err
			}
			return at, nil
		case rerr != nil:
			return at, j.explain(ctx, src, rerr)
		}
	}
}

// report tells that so much of a hundred times all of it is done.
func (j Job) report(done, all int64) {
	if j.Progress != nil && all > 0 {
		j.Progress(int(done / all))
	}
}

// clearEnds takes boot code, partition tables and their copies off the disk: whatever happens from
// here on, it does not boot what was on it, nor half of what comes.
func clearEnds(disk Disk, size uint64) error {
	zeros := make([]byte, min(HeadSize, size))
	for _, at := range []uint64{0, size - uint64(len(zeros))} {
		if _, err := disk.WriteAt(zeros, int64(at)); err != nil {
			return fmt.Errorf("clear the boot sectors: the disk failed at byte %d: %w", at, err)
		}
	}
	if err := disk.Sync(); err != nil {
		return fmt.Errorf("clear the boot sectors: %w", err)
	}
	return nil
}

func (j Job) checkSum(src Source) error {
	if got := src.Sum(); got != j.SHA256 {
		return &ChecksumError{Image: j.Name, Got: got, Want: j.SHA256}
	}
	return nil
}

// explain reports why an image could not be decompressed: that its bytes are the wrong ones tells
// more than where a decoder stumbled.
func (j Job) explain(ctx context.Context, src Source, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("write image %s: %w", j.Name, context.Cause(ctx))
	}
	if small := (*TooSmallError)(nil); errors.As(err, &small) {
		return err
	}
	if _, lost := io.Copy(io.Discard, src); lost != nil {
		return lost // the network is what is wrong
	}
	if wrong := j.checkSum(src); wrong != nil {
		return wrong
	}
	if j.Format == formatTAR {
		return fmt.Errorf("unpack image %s: %w: its checksum is right, so it was added like that: is it really a TAR of a root file system, and its compression %s?", j.Name, err, j.Compression)
	}
	if j.Format == formatQCOW2 {
		return fmt.Errorf("read image %s: %w: its checksum is right, so it was added like that: is it really QCOW2, and its compression %s?", j.Name, err, j.Compression)
	}
	return fmt.Errorf("decompress image %s: %w: its checksum is right, so it was added like that: is its compression really %s?", j.Name, err, j.Compression)
}
