package table

import (
	"fmt"
	"runtime"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// series is a sequence without the type of its messages: see Rowset. Copies share the chunks.
type series struct {
	rules     rules
	number    func(proto.Message) uint64
	numberKey func(to []byte, number uint64) []byte
	guard     *chunkGuard // may be nil

	first, end uint64 // the number of the first row, and of the row after the last
	start      uint64 // the number of the first slot of the first chunk
	chunks     []*chunk
}

func newSeries(r rules, number func(proto.Message) uint64, key func([]byte, uint64) []byte) *series {
	s := &series{rules: r, number: number, numberKey: key}
	if guarded {
		s.Guard()
	}
	return s
}

func (s *series) copy() *series {
	s.guard.sample()
	c := *s
	return &c
}

// same reports whether a copy has the same rows. An append changes the end, and the first
// append to a copy that differs replaces the last chunk.
func (s *series) same(o *series) bool {
	return s.first == o.first && s.end == o.end && (s.Len() == 0 || s.chunks[len(s.chunks)-1] == o.chunks[len(o.chunks)-1])
}

// Name returns the sequence's name in lower case.
func (s *series) Name() string { return strings.ToLower(s.rules.kind.String()) }

// Len returns the number of rows.
func (s *series) Len() int { return int(s.end - s.first) }

// Last returns the number of the last row, or zero if there is none.
func (s *series) Last() uint64 {
	if s.Len() == 0 {
		return 0
	}
	return s.end - 1
}

// at returns the message of a row that there is. It is shared: nobody may change it.
func (s *series) at(number uint64) proto.Message {
	offset := number - s.start
	return s.rules.decode(s.chunks[offset/chunkRows].row(int(offset % chunkRows)))
}

// append adds a row. The slot is free for this copy of the sequence only.
func (s *series) append(m proto.Message) {
	n := s.number(m)
	switch {
	case s.Len() == 0:
		s.first, s.end, s.start, s.chunks = n, n, n, nil
	case n != s.end:
		panic(fmt.Sprintf("append row %d to %s, which ends before row %d", n, s.Name(), s.end))
	}
	i := int((n - s.start) % chunkRows)
	last := len(s.chunks) - 1
	switch {
	case i == 0:
		s.chunks = append(slices.Clip(s.chunks), newChunk()) // copies share the list
	case !s.chunks[last].claim(i):
		s.chunks = append(s.chunks[:last:last], s.chunks[last].fork(i))
	}
	c := s.chunks[len(s.chunks)-1]
	c.hot.Load()[i] = m
	s.guard.store(c, i, m)
	s.end++
}

// DropBefore removes the rows with a number < number. Their memory is freed with their chunk.
func (s *series) DropBefore(number uint64) {
	s.first = max(s.first, min(number, s.end))
	for s.first-s.start >= chunkRows {
		s.guard.drop(s.chunks[0])
		s.start += chunkRows
		s.chunks = s.chunks[1:]
	}
}

func (s *series) kind() internalv1.SnapshotRecord_Table { return s.rules.kind }

// pages calls emit with the rows as pages, by number, until it returns an error: one page for
// each chunk. The page of a chunk that is full is kept until its first row is dropped.
func (s *series) pages(emit func(*page) error) error {
	b := &pageBuilder{kind: s.rules.kind}
	for i, c := range s.chunks {
		from := s.start + uint64(i)*chunkRows
		whole := from+chunkRows <= s.end // else a copy that has all of its rows may encode it
		if whole {
			s.encode(c, from, b)
		}
		p := c.page()
		if !whole || from < s.first {
			p = s.part(c, from, b)
		}
		if p.rows == 0 { // all were dropped
			continue
		}
		if err := emit(p); err != nil {
			return err
		}
		runtime.Gosched()
	}
	return nil
}

// part returns a page of the rows of a chunk that this copy of the sequence has.
func (s *series) part(c *chunk, from uint64, b *pageBuilder) *page {
	var key []byte
	for n := max(from, s.first); n < min(from+chunkRows, s.end); n++ {
		key = s.numberKey(key[:0], n)
		b.add(textOf(key), c.row(int(n-from)))
	}
	p, _ := b.build()
	return p
}
