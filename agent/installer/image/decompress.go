package image

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// maxWindow bounds the memory of a zstd frame, in bytes. It is the window of zstd
// --long=27, which every zstd can decompress.
const maxWindow = 128 << 20

// decompress returns a reader of the decompressed bytes. It returns an error if the image
// declares a size larger than the disk.
func (j Job) decompress(src io.Reader) (plain io.Reader, end func(), err error) {
	in := bufio.NewReaderSize(src, chunk)
	switch j.Compression {
	case "NONE":
		return in, func() {}, nil
	case "GZIP":
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, nil, err
		}
		return z, func() { _ = z.Close() }, nil
	case "ZSTD":
		if first, err := in.Peek(zstd.HeaderMaxSize); err == nil || errors.Is(err, io.EOF) {
			var h zstd.Header
			if h.Decode(first) == nil && h.HasFCS && h.FrameContentSize > j.DiskSize {
				return nil, nil, &TooSmallError{Image: j.Name, Need: h.FrameContentSize, Have: j.DiskSize}
			}
		}
		z, err := zstd.NewReader(in, zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, nil, err
		}
		return z, z.Close, nil
	}
	return nil, nil, fmt.Errorf("unknown compression %q", j.Compression)
}

// fill reads until the buffer is full or the reader ends. Unlike io.ReadFull it does not
// treat a decoder's io.ErrUnexpectedEOF, which means missing data, as the end.
func fill(r io.Reader, buf []byte) (n int, err error) {
	for n < len(buf) && err == nil {
		var m int
		m, err = r.Read(buf[n:])
		n += m
	}
	return n, err
}
