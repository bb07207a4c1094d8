package segment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"slices"

	"github.com/hashicorp/raft-wal/segment"
)

// Sizes in the format of segments, which starts with a header and continues with frames. A frame
// has a header with its kind and, in the upper half, the length of its data or a checksum.
const (
	headerSize = 32
	frameSize  = 8 // of a frame's header; frames are padded to a multiple of it
	windowSize = 256 << 10
)

// file reads parts of a segment through a window.
type file struct {
	from   io.ReaderAt
	size   int64
	window []byte
	at     int64 // of the window
	err    error // the first error of the disk; the data of later reads do not matter
}

// read returns a part of the file until the next call, or nil if the file ends before.
func (f *file) read(at, n int64) []byte {
	if at < 0 || n < 0 || at+n > f.size || f.err != nil {
		return nil
	}
	if at < f.at || at+n > f.at+int64(len(f.window)) {
		size := min(max(n, windowSize), f.size-at)
		f.window, f.at = slices.Grow(f.window[:0], int(size))[:size], at
		if _, err := f.from.ReadAt(f.window, at); err != nil && !errors.Is(err, io.EOF) {
			f.err = err
			return nil
		}
	}
	return f.window[at-f.at : at-f.at+n]
}

// frame is a frame of a segment.
type frame struct {
	kind  byte
	at    int64
	data  int64  // its length
	value uint32 // the length, or the checksum of a commit frame
}

// size returns how many bytes a frame occupies.
func (r frame) size() int64 { return frameSize + (r.data+frameSize-1)&^(frameSize-1) }

// frame returns the frame at an offset. ok is false if there is none.
func (f *file) frame(at int64) (r frame, ok bool) {
	head := f.read(at, frameSize)
	if head == nil || head[1] != 0 || head[2] != 0 || head[3] != 0 {
		return frame{}, false
	}
	r = frame{kind: head[0], at: at, value: binary.LittleEndian.Uint32(head[4:])}
	switch r.kind {
	case segment.FrameCommit:
		return r, true
	case segment.FrameEntry, segment.FrameIndex:
		r.data = int64(r.value)
		return r, r.data <= segment.MaxEntrySize && at+r.size() <= f.size
	}
	return frame{}, false
}

// batch is the frames of one write, which ends with a commit frame.
type batch struct {
	entries []frame
	index   frame // the index that seals the segment; its kind is zero if there is none
	end     int64 // behind the commit frame; zero if there is none
	whole   bool  // the checksum in the commit frame is that of the frames
}

// batch reads the batch at an offset. The first one in a file includes the header.
func (f *file) batch(start int64) (b batch) {
	sum, at := uint32(0), start
	table := crc32.MakeTable(crc32.Castagnoli)
	if start == 0 {
		sum, at = crc32.Checksum(f.read(0, headerSize), table), headerSize
	}
	for {
		r, ok := f.frame(at)
		if !ok {
			return b
		}
		switch r.kind {
		case segment.FrameCommit:
			b.end, b.whole = at+frameSize, sum == r.value && at > start
			return b
		case segment.FrameEntry:
			b.entries = append(b.entries, r)
		case segment.FrameIndex:
			b.index = r
		}
		sum = crc32.Update(sum, table, f.read(at, r.size()))
		at += r.size()
	}
}

// seals reports whether raft-wal would find an index behind an offset. It needs only the header of
// a frame, so a full disk may have cut the index off.
func (f *file) seals(at int64) bool {
	for at = max(at, headerSize); ; {
		head := f.read(at, frameSize)
		if head == nil {
			return false
		}
		r := frame{kind: head[0]}
		switch r.kind {
		case segment.FrameIndex:
			return true
		case segment.FrameEntry:
			r.data = int64(binary.LittleEndian.Uint32(head[4:]))
		case segment.FrameCommit:
		default:
			return false
		}
		at += r.size()
	}
}

// nonzero returns the offset of the next frame header that is not zero, or the size of the file.
// Segments are allocated in advance, so most of a file may be zero.
func (f *file) nonzero(at int64) int64 {
	var zero [4096]byte
	for at < f.size && f.err == nil {
		part := f.read(at, min(int64(len(zero)), f.size-at))
		if bytes.Equal(part, zero[:len(part)]) {
			at += int64(len(part))
			continue
		}
		for i := 0; i < len(part); i += frameSize {
			if end := min(i+frameSize, len(part)); !bytes.Equal(part[i:end], zero[:end-i]) {
				return at + int64(i)
			}
		}
	}
	return f.size
}
