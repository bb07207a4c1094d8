package image

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

const (
	formatTAR = "TAR"
	// look is how much of an archive is read before anything is written, in bytes: to see that it
	// is one.
	look = 64 << 10
)

// ContentError means that an image cannot be used because of what is in it: wrong bytes, or an
// archive that nobody should have made.
type ContentError struct {
	What string // where in the image
	Err  error
}

// Error implements error.
func (e *ContentError) Error() string { return e.What + ": " + e.Err.Error() }

// Unwrap returns what is wrong there.
func (e *ContentError) Unwrap() error { return e.Err }

// Unpack hands an image that is a tar to whoever makes a disk of it, as it comes, and reads the
// source to its end. What was written is to be made bootable only when this has succeeded: the
// checksum is known in the end. Prepare has to take the boot sectors off the disk (Clear).
func (j Job) Unpack(ctx context.Context, src Source, into func(ctx context.Context, archive io.Reader) error) (Result, error) {
	start := time.Now()
	plain, closeIt, err := j.decompress(src)
	if err != nil {
		return Result{}, j.explain(ctx, src, err)
	}
	defer closeIt()
	in := bufio.NewReaderSize(plain, look)
	first, err := in.Peek(look)
	if err == nil || errors.Is(err, io.EOF) {
		err = archived(first)
	}
	if err != nil {
		closeIt() // a decoder reads ahead by itself, and explain reads the same source
		return Result{}, j.explain(ctx, src, err)
	}
	if j.Prepare != nil {
		if _, err := j.Prepare(ctx); err != nil {
			return Result{}, err
		}
	}
	all := &counted{Reader: in, then: func() { j.report(100*src.Received(), src.Size()) }}
	if err := into(ctx, all); err != nil {
		if content := (*ContentError)(nil); errors.As(err, &content) {
			closeIt()
			return Result{}, j.explain(ctx, src, err)
		}
		return Result{}, fmt.Errorf("write image %s: %w", j.Name, err)
	}
	if _, err := io.Copy(io.Discard, all); err != nil { // tar pads, and a decoder has its own sum at the end
		return Result{}, j.explain(ctx, src, err)
	}
	if _, err := io.Copy(io.Discard, src); err != nil {
		return Result{}, err
	}
	if err := j.checkSum(src); err != nil {
		return Result{}, err
	}
	return Result{ImageBytes: all.n, SentBytes: src.Received(), Took: time.Since(start)}, nil
}

// archived reports why the first bytes are not those of a tar.
func archived(first []byte) error {
	_, err := tar.NewReader(bytes.NewReader(first)).Next()
	switch {
	case errors.Is(err, io.EOF):
		return errors.New("there is nothing in it")
	case errors.Is(err, io.ErrUnexpectedEOF) && len(first) == look:
		return nil // a long header
	}
	return err
}

// Clear takes boot code and partition tables off a disk of so many bytes: from here on it boots
// neither what was on it nor half of what comes.
func Clear(disk Disk, size uint64) error { return clearEnds(disk, size) }

// counted counts what is read, and tells that something was.
type counted struct {
	io.Reader
	n    int64
	then func()
}

// Read implements io.Reader.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += int64(n)
	c.then()
	return n, err
}
