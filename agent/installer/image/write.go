package image

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/holdfast-metal/holdfast/agent/installer/table"
	"github.com/holdfast-metal/holdfast/internal/imageformat"
)

// chunk is the number of bytes written at once.
const chunk = 1 << 20

// Source supplies the bytes of an image, such as a Download.
type Source interface {
	io.Reader
	Received() int64
	Size() int64
	Sum() string
}

// Job writes one image to one disk.
type Job struct {
	Name        string // of the image
	SHA256      string // of the bytes as they are sent, in lower case
	Compression string // NONE, GZIP or ZSTD
	// Format is RAW (default), QCOW2, which is stored whole before anything is written, or
	// TAR, which is for Unpack.
	Format     string
	TempDir    string // where QCOW2 is stored; default: the system's, which is in memory in the installer
	DiskSize   uint64 // bytes
	SectorSize int    // logical sector of the disk, in bytes; default 512. Unpack ignores it
	// Prepare is called once, right before the first byte is written, when the image is
	// known to fit as far as possible. It may erase the disk, and reports whether the disk
	// now reads as zeros. An error stops the job. Nil means that nothing is to be prepared.
	Prepare func(ctx context.Context) (zeroed bool, err error)
	// Progress is called with the progress in percent. It must not block.
	Progress func(percent int)
}

// Result describes a written image.
type Result struct {
	ImageBytes int64 // after decompression
	SentBytes  int64 // as received
	Took       time.Duration
}

// Write streams an image to a disk and syncs it. If it fails, the disk has no boot code and
// no partition table. If it fails before the first write, the disk is unchanged.
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
	if plain, err = j.recognized(plain); err != nil {
		closeIt() // a decoder reads ahead, and explain reads the same source
		return Result{}, j.explain(ctx, src, err)
	}
	progress := func(int64) { j.report(100*src.Received(), src.Size()) }
	if j.Format == formatQCOW2 {
		inside, err := j.stage(ctx, src, plain)
		if err != nil {
			return Result{}, err
		}
		defer inside.end()
		plain, progress = inside, func(at int64) { j.report(50*inside.Size()+50*at, inside.Size()) }
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
		return Result{}, fmt.Errorf("write image %s: its partition table is for disks with sectors of 512 bytes, "+
			"and this disk has sectors of %d: nothing was written: use a disk with 512 "+
			"(many NVMe disks can be formatted: nvme format --lbaf), or an image made for %d",
			j.Name, j.SectorSize, j.SectorSize)
	}
	zeroed := false
	if j.Prepare != nil {
		if zeroed, err = j.Prepare(ctx); err != nil {
			return Result{}, err
		}
	}
	if err := Clear(disk, j.DiskSize); err != nil {
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
		return Result{}, fmt.Errorf("write image %s: the disk failed: %w", j.Name, err)
	}
	if _, err := disk.WriteAt(head, 0); err != nil {
		return Result{}, fmt.Errorf("write the start of image %s: %w", j.Name, err)
	}
	if err := disk.Sync(); err != nil {
		return Result{}, fmt.Errorf("write the start of image %s: the disk failed: %w", j.Name, err)
	}
	return Result{ImageBytes: end, SentBytes: src.Received(), Took: time.Since(start)}, nil
}

// recognized returns the same decompressed bytes, or an error if they do not begin like an image of
// the declared format. Their source then has ended or failed.
func (j Job) recognized(plain io.Reader) (io.Reader, error) {
	in := bufio.NewReaderSize(plain, imageformat.PlainSize)
	head, err := in.Peek(imageformat.PlainSize)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(head) == 0 {
		return nil, errors.New("it is empty")
	}
	return in, imageformat.Check(cmp.Or(j.Format, "RAW"), "NONE", head)
}

// stream writes the bytes after the head, and reads the source to its end.
func (j Job) stream(
	ctx context.Context, src Source, plain io.Reader, disk Disk, at int64, zeroed bool, progress func(at int64),
) (int64, error) {
	buf, zeros := make([]byte, chunk), make([]byte, chunk)
	for {
		if err := context.Cause(ctx); err != nil {
			return at, fmt.Errorf("write image %s: stopped after %d bytes: %w", j.Name, at, err)
		}
		n, rerr := fill(plain, buf)
		if n > 0 {
			if uint64(at)+uint64(n) > j.DiskSize {
				return at, &TooSmallError{
					Image:   j.Name,
					Need:    uint64(at) + uint64(n),
					Have:    j.DiskSize,
					AtLeast: true,
					Wrote:   true,
				}
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

// report reports the progress, where done is a hundred times the completed part of all.
func (j Job) report(done, all int64) {
	if j.Progress != nil && all > 0 {
		j.Progress(int(done / all))
	}
}

// Clear erases boot code, partition tables and their copies of a disk with the given size
// in bytes. From then on it boots neither its old system nor a part of the new one.
func Clear(disk Disk, size uint64) error {
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

// explain returns the reason why an image could not be decompressed. A wrong checksum is
// more useful than the position at which a decoder failed.
func (j Job) explain(ctx context.Context, src Source, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("write image %s: %w", j.Name, context.Cause(ctx))
	}
	if _, ok := errors.AsType[*TooSmallError](err); ok {
		return err
	}
	if _, lost := io.Copy(io.Discard, src); lost != nil {
		return lost // the network is the cause
	}
	if wrong := j.checkSum(src); wrong != nil {
		return wrong
	}
	if e, ok := errors.AsType[*imageformat.Error](err); ok {
		return fmt.Errorf("write image %s: %w: nothing was written", j.Name, e)
	}
	const added = "its checksum is right, so it was added like that"
	switch j.Format {
	case formatTAR:
		return fmt.Errorf("unpack image %s: %w: %s: is it really a TAR of a root file system, and its compression %s?",
			j.Name, err, added, j.Compression)
	case formatQCOW2:
		return fmt.Errorf("read image %s: %w: %s: is it really QCOW2, and its compression %s?",
			j.Name, err, added, j.Compression)
	}
	return fmt.Errorf("decompress image %s: %w: %s: is its compression really %s?", j.Name, err, added, j.Compression)
}
