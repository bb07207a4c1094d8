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
	return s, counts, nil
}
