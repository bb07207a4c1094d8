package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"runtime/coverage"
)

// executed returns how many blocks of code this process has executed, in the packages that were
// built with counters.
func executed() (uint64, error) {
	var data bytes.Buffer
	if err := coverage.WriteCounters(&data); err != nil {
		return 0, fmt.Errorf("read the coverage counters: %w", err)
	}
	return sumCounters(data.Bytes())
}

// sumCounters returns the sum of the counters in a file of the compiler's coverage (Go's package
// internal/coverage describes the format: a header, one segment with functions, a footer).
func sumCounters(data []byte) (sum uint64, err error) {
	const header, segment, footer, uleb128 = 32, 16, 16, 2
	if len(data) < header+segment+footer || !bytes.HasPrefix(data, []byte("\x00\x63\x77\x6d")) {
		return 0, fmt.Errorf("read counters: %d bytes are no file of counters", len(data))
	}
	if encoding := data[24]; encoding != uleb128 {
		return 0, fmt.Errorf("read counters: unknown encoding %d", encoding)
	}
	functions := binary.LittleEndian.Uint64(data[header:])
	at := header + segment + int(binary.LittleEndian.Uint32(data[header+8:])+binary.LittleEndian.Uint32(data[header+12:]))
	at += (4 - at%4) % 4
	next := func() uint64 {
		n, size := binary.Uvarint(data[at:])
		at += size
		return n
	}
	for range functions {
		counters := next()
		next() // the package
		next() // the function
		for range counters {
			sum += next()
		}
	}
	return sum, nil
}
