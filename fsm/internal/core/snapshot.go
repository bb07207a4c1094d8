package core

import (
	"errors"
	"fmt"
	"io"

	"github.com/holdfast-metal/holdfast/fsm/internal/table"
)

// ReadSnapshot reads a snapshot and returns the number of records in each table. If keep is
// false, it checks the records and returns a state without them.
func ReadSnapshot(r io.Reader, keep bool) (*State, []table.Count, error) {
	in, header, err := table.Open(r)
	if err != nil {
		return nil, nil, err
	}
	if err := Known(header.ProtoReflect()); err != nil {
		return nil, nil, fmt.Errorf("read header: %w: the snapshot is of a newer build", err)
	}
	if l := header.GetMeta().GetFeatureLevel(); l > FeatureLevel {
		return nil, nil, fmt.Errorf("snapshot has feature level %d, this build understands %d: upgrade it",
			l, FeatureLevel)
	}
	if header.GetMeta() == nil {
		return nil, nil, errors.New("snapshot is damaged: its header has no state")
	}
	s := NewState()
	s.Meta = header.GetMeta()
	counts, err := in.Load(s.Tables(), keep)
	if err != nil {
		return nil, nil, err
	}
	if err := s.checkNumbers(); err != nil {
		return nil, nil, err
	}
	return s, counts, nil
}

// checkNumbers returns an error if the next row of a sequence would not follow its last one.
func (s *State) checkNumbers() error {
	for _, c := range []struct {
		rows interface {
			Name() string
			Last() uint64
		}
		last uint64 // by the header
	}{
		{s.RunEvents, s.Meta.GetLastRunEvent()}, {s.ServiceEvents, s.Meta.GetLastServiceEvent()},
		{s.Events, s.Meta.GetLastEvent()}, {s.Audit, s.Meta.GetLastAudit()},
	} {
		if last := c.rows.Last(); last != 0 && last != c.last {
			return fmt.Errorf("snapshot is damaged: the last record of %s is %d, its header says %d",
				c.rows.Name(), last, c.last)
		}
	}
	return nil
}
