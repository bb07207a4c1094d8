package table

import (
	"fmt"

	"google.golang.org/protobuf/proto"
)

// seriesLoader is the loader of an empty sequence.
type seriesLoader struct {
	rowCheck
	into  *series
	keep  bool
	order keyOrder
	key   []byte // of the next row

	rows  [chunkRows]string // of the last chunk
	build pageBuilder
}

// newLoader returns the loader of an empty sequence. If keep is false, rows are only checked
// and counted: the sequence knows their numbers, and has none of them.
func (s *series) newLoader(keep bool) bulkLoader {
	return &seriesLoader{rowCheck: newRowCheck(s.rules), into: s, keep: keep, build: pageBuilder{kind: s.rules.kind}}
}

func (in *seriesLoader) len() int { return in.into.Len() }

func (in *seriesLoader) prepare(rows []incoming) error {
	return in.each(rows, func(proto.Message) {})
}

// add adds prepared rows. The first has any number, and the others follow without a gap.
func (in *seriesLoader) add(rows []incoming) error {
	if err := in.order.next(in.into.Name(), rows); err != nil {
		return err
	}
	for _, r := range rows {
		if err := in.next(r.row); err != nil {
			return err
		}
		if in.keep {
			in.fill(textOf(r.value()))
		}
	}
	return nil
}

// next counts a row, whose number must be the next one.
func (in *seriesLoader) next(r row) error {
	s := in.into
	if s.Len() == 0 {
		m, err := in.decode(r.value(), nil)
		if err != nil {
			return err
		}
		s.first = s.number(m)
		s.start, s.end = s.first, s.first
	}
	in.key = s.numberKey(in.key[:0], s.end)
	if r.key != string(in.key) {
		return fmt.Errorf("snapshot is damaged: record %q of %s is missing", in.key, s.Name())
	}
	s.end++
	return nil
}

// fill adds an encoded row. The next row of the sequence will be in the same chunk, unless that
// is full.
func (in *seriesLoader) fill(row string) {
	s := in.into
	i := (s.Len() - 1) % chunkRows
	if i == 0 {
		s.chunks = append(s.chunks, &chunk{})
	}
	c := s.chunks[len(s.chunks)-1]
	in.rows[i] = row
	in.build.add(textOf(in.key), row)
	c.used.Store(int32(i + 1))
	if i == chunkRows-1 {
		c.cool(in.build.build())
	}
}

// trees moves the rows of the last chunk, if it is not full.
func (in *seriesLoader) trees() []func() {
	n := in.into.Len() % chunkRows
	if !in.keep || n == 0 {
		return nil
	}
	return []func(){func() {
		hot := &slots{}
		for i, row := range in.rows[:n] {
			hot[i] = row
		}
		in.into.chunks[len(in.into.chunks)-1].hot.Store(hot)
	}}
}
