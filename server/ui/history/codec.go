package history

import (
	"bytes"
	"compress/gzip"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/holdfast-metal/holdfast/server/ui/history/series"
)

const (
	// fileVersion is the first byte of the file. The rest is gob in a gzip stream, which has a
	// checksum.
	fileVersion = 1
	// maxFile is the maximum number of bytes of the file, also without compression.
	maxFile = 2 << 20
)

// saved is the content of the file: numbers and times of states, phases, providers and peers.
type saved struct {
	Fixed, BMCs series.Saved
	Leaders     []Leader
	Cursor      uint64    // events up to here are counted
	Until       time.Time // runs that ended up to here are counted
}

func encode(s saved) ([]byte, error) {
	out := bytes.NewBuffer([]byte{fileVersion})
	z := gzip.NewWriter(out)
	if err := errors.Join(gob.NewEncoder(z).Encode(s), z.Close()); err != nil {
		return nil, fmt.Errorf("encode the charts: %w", err)
	}
	return out.Bytes(), nil
}

// decode returns the content of a file, or an error if it is damaged, foreign or too large.
func decode(file io.Reader) (s saved, err error) {
	file = io.LimitReader(file, maxFile)
	var version [1]byte
	if _, err := io.ReadFull(file, version[:]); err != nil {
		return s, fmt.Errorf("decode the charts: read version: %w", err)
	}
	if version[0] != fileVersion {
		return s, fmt.Errorf("decode the charts: version %d: want %d", version[0], fileVersion)
	}
	z, err := gzip.NewReader(file)
	if err != nil {
		return s, fmt.Errorf("decode the charts: %w", err)
	}
	data, err := io.ReadAll(io.LimitReader(z, maxFile+1)) // also checks the checksum
	if err != nil {
		return s, fmt.Errorf("decode the charts: %w", err)
	}
	if len(data) > maxFile {
		return s, fmt.Errorf("decode the charts: content of more than %d bytes", maxFile)
	}
	if err := gob.NewDecoder(bytes.NewReader(data)).Decode(&s); err != nil {
		return s, fmt.Errorf("decode the charts: %w", err)
	}
	return s, nil
}
