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
	// peekSize is how much of an archive is checked before anything is written, in bytes.
	peekSize = 64 << 10
)

// ContentError means that an image cannot be used because of its contents: wrong bytes, or
// an invalid archive.
type ContentError struct {
	What string // the position in the image
	Err  error
}

// Error implements error.
func (e *ContentError) Error() string { return e.What + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *ContentError) Unwrap() error { return e.Err }

// Unpack passes an image that is a tar to into, as a stream, and reads the source to its
// end. The result must not be made bootable unless Unpack succeeds, because the checksum is
// verified last. Prepare has to erase the boot sectors of the disk (Clear).
func (j Job) Unpack(
	ctx context.Context, src Source, into func(ctx context.Context, archive io.Reader) error,
) (Result, error) {
	start := time.Now()
	plain, closeIt, err := j.decompress(src)
	if err != nil {
		return Result{}, j.explain(ctx, src, err)
	}
	defer closeIt()
	in := bufio.NewReaderSize(plain, peekSize)
	first, err := in.Peek(peekSize)
	if err == nil || errors.Is(err, io.EOF) {
		err = archived(first)
	}
	if err != nil {
		closeIt() // a decoder reads ahead, and explain reads the same source
		return Result{}, j.explain(ctx, src, err)
	}
	if j.Prepare != nil {
		if _, err := j.Prepare(ctx); err != nil {
			return Result{}, err
		}
	}
	all := &counted{Reader: in, then: func() { j.report(100*src.Received(), src.Size()) }}
	if err := into(ctx, all); err != nil {
		if _, ok := errors.AsType[*ContentError](err); ok {
			closeIt()
			return Result{}, j.explain(ctx, src, err)
		}
		return Result{}, fmt.Errorf("write image %s: %w", j.Name, err)
	}
	// A tar is padded, and a decoder verifies its own checksum at the end.
	if _, err := io.Copy(io.Discard, all); err != nil {
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

// archived returns an error if the first bytes are not those of a tar.
func archived(first []byte) error {
	_, err := tar.NewReader(bytes.NewReader(first)).Next()
	switch {
	case errors.Is(err, io.EOF):
		return errors.New("it is empty")
	case errors.Is(err, io.ErrUnexpectedEOF) && len(first) == peekSize:
		return nil // a long header
	}
	return err
}

// counted counts the bytes read, and calls then after each read.
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
