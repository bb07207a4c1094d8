package image

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/lima-vm/go-qcow2reader/image/qcow2"
)

const formatQCOW2 = "QCOW2"

// staged is the disk inside a qcow2 image, from its first byte to its last.
type staged struct {
	*io.SectionReader
	end func()
}

// stage stores a qcow2 image in a file, because its tables may be anywhere in it. The whole
// image is stored and its checksum verified before it is used, so a failure here has
// written nothing to the disk.
func (j Job) stage(ctx context.Context, src Source, plain io.Reader) (_ *staged, err error) {
	f, err := os.CreateTemp(j.TempDir, "image-")
	if err != nil {
		return nil, fmt.Errorf("store image %s: %w", j.Name, err)
	}
	end := func() { _ = f.Close() }
	defer func() {
		if err != nil {
			end()
		}
	}()
	if err := os.Remove(f.Name()); err != nil { // the file is freed when it is closed
		return nil, fmt.Errorf("store image %s: %w", j.Name, err)
	}
	if err := j.keep(ctx, src, plain, f); err != nil {
		return nil, err
	}
	if _, err := io.Copy(io.Discard, src); err != nil {
		return nil, err
	}
	if err := j.checkSum(src); err != nil {
		return nil, err
	}
	head := make([]byte, 16)
	if _, err := f.ReadAt(head, 0); err != nil {
		return nil, j.explain(ctx, src, err)
	}
	if binary.BigEndian.Uint64(head[8:]) != 0 { // the name of a file, which must not be one of this machine
		return nil, j.explain(ctx, src, errors.New("it has a backing file, "+
			"and only the contents of the image itself can be written (qemu-img convert makes one image of both)"))
	}
	img, err := qcow2.Open(f, nil)
	if err == nil {
		err = img.Readable()
	}
	if err != nil {
		return nil, j.explain(ctx, src, err)
	}
	if size := img.Size(); size < 0 || uint64(size) > j.DiskSize {
		return nil, &TooSmallError{Image: j.Name, Need: uint64(size), Have: j.DiskSize}
	}
	return &staged{io.NewSectionReader(img, 0, img.Size()), end}, nil
}

// keep copies the image into the file. This counts as half of the progress.
func (j Job) keep(ctx context.Context, src Source, plain io.Reader, f *os.File) error {
	buf, at := make([]byte, chunk), int64(0)
	for {
		if err := context.Cause(ctx); err != nil {
			return fmt.Errorf("store image %s: stopped after %d bytes: %w", j.Name, at, err)
		}
		n, rerr := fill(plain, buf)
		if _, err := f.Write(buf[:n]); err != nil {
			return fmt.Errorf("store image %s, which is QCOW2 and has to fit in the memory of the machine: "+
				"it failed after %d bytes and nothing was written: %w: add it as raw (qemu-img convert -O raw)",
				j.Name, at, err)
		}
		at += int64(n)
		j.report(50*src.Received(), src.Size())
		if errors.Is(rerr, io.EOF) {
			return nil
		}
		if rerr != nil {
			return j.explain(ctx, src, rerr)
		}
	}
}
