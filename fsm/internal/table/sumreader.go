package table

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/cespare/xxhash/v2"
)

// readAhead is the read buffer of a snapshot, in bytes.
const readAhead = 1 << 20

// summingReader computes the checksum of the bytes read through it.
type summingReader struct {
	*bufio.Reader
	sum *xxhash.Digest
	one [1]byte
}

func newSummingReader(r io.Reader) *summingReader {
	return &summingReader{Reader: bufio.NewReaderSize(r, readAhead), sum: xxhash.New()}
}

func (r *summingReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	_, _ = r.sum.Write(p[:n])
	return n, err
}

func (r *summingReader) ReadByte() (byte, error) {
	b, err := r.Reader.ReadByte()
	if err == nil {
		r.one[0] = b
		_, _ = r.sum.Write(r.one[:])
	}
	return b, err
}

// next returns the next message of the stream. Its bytes may alias the buffer, so they are
// valid until the next read.
func (r *summingReader) next() ([]byte, error) {
	size, err := binary.ReadUvarint(r)
	if err != nil {
		return nil, err
	}
	if size > maxRecord {
		return nil, fmt.Errorf("its size is %d bytes, at most %d are allowed: the snapshot is damaged", size, maxRecord)
	}
	if size > readAhead {
		b := make([]byte, size)
		_, err := io.ReadFull(r, b)
		return b, err
	}
	b, err := r.Peek(int(size))
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	_, _ = r.sum.Write(b)
	_, err = r.Discard(len(b)) // the bytes stay valid until the next read
	return b, err
}
