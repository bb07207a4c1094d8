package table

import (
	"iter"
	"slices"

	"google.golang.org/protobuf/proto"
)

// Sequence is a list of rows with consecutive numbers, such as the events of runs. Rows are
// appended at the end and dropped at the beginning, in constant time, and nobody may change
// one. A copy takes constant time too. In a snapshot it is a table whose keys are the numbers.
type Sequence[P proto.Message] struct{ *series }

// NewSequence returns an empty sequence. The schema needs Key, Number and NumberKey; indexes and
// facets are not used.
func NewSequence[P proto.Message](s *Schema[P]) *Sequence[P] {
	return &Sequence[P]{newSeries(s.rules(), func(m proto.Message) uint64 { return s.Number(m.(P)) }, s.NumberKey)}
}

// Freeze returns since if nothing has changed since that copy, or else a new copy. The result
// is read-only.
func (s *Sequence[P]) Freeze(since *Sequence[P]) *Sequence[P] {
	if since != nil && s.same(since.series) {
		return since
	}
	return s.Copy()
}

// Copy returns a copy that later writes do not affect.
func (s *Sequence[P]) Copy() *Sequence[P] { return &Sequence[P]{s.series.copy()} }

// Append adds a row, which nobody may change any more. Its number is that of the last row plus
// one. The first row of an empty sequence may have any number. It panics on another number.
func (s *Sequence[P]) Append(m P) { s.append(m) }

// Get returns the row with a number.
func (s *Sequence[P]) Get(number uint64) (m P, ok bool) {
	if number < s.first || number >= s.end {
		return m, false
	}
	return s.at(number).(P), true
}

// After returns the rows with a number > after, in order.
func (s *Sequence[P]) After(after uint64) iter.Seq[P] {
	return func(yield func(P) bool) {
		if after >= s.end {
			return
		}
		for n := max(after+1, s.first); n < s.end && yield(s.at(n).(P)); n++ {
		}
	}
}

// Page returns at most limit rows with a number > after, in order.
func (s *Sequence[P]) Page(after uint64, limit int) []P {
	var rows []P
	for m := range s.After(after) {
		if len(rows) == limit {
			break
		}
		rows = append(rows, m)
	}
	return rows
}

// Before returns the rows with a number < before, last first.
func (s *Sequence[P]) Before(before uint64) iter.Seq[P] {
	return func(yield func(P) bool) {
		for n := min(before, s.end); n > s.first && yield(s.at(n-1).(P)); n-- {
		}
	}
}

// Rewrite replaces each row with a copy that change has changed. The numbers must still be
// consecutive.
func (s *Sequence[P]) Rewrite(change func(P)) {
	rows := slices.Collect(s.After(0))
	s.DropBefore(s.end)
	for _, m := range rows {
		m = proto.CloneOf(m)
		change(m)
		s.Append(m)
	}
}
