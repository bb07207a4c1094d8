package fsmtest

import (
	"bufio"
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Dump is a whole state that can be compared with another one.
type Dump struct {
	Meta    *internalv1.Meta
	Records map[string]string // the stored bytes by TABLE/key
}

// Bytes returns the encoded snapshot of an FSM.
func Bytes(f *fsm.FSM) ([]byte, error) {
	s, err := f.Snapshot()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if _, err := s.WriteTo(&b); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// DumpOf returns the dump of an FSM's state.
func DumpOf(f *fsm.FSM) (*Dump, error) {
	b, err := Bytes(f)
	if err != nil {
		return nil, err
	}
	in := bufio.NewReader(bytes.NewReader(b))
	var header internalv1.SnapshotHeader
	if err := protodelim.UnmarshalFrom(in, &header); err != nil {
		return nil, fmt.Errorf("read header: %w", err)
	}
	d := &Dump{Meta: header.GetMeta(), Records: map[string]string{}}
	for {
		var r internalv1.SnapshotRecord
		if err := protodelim.UnmarshalFrom(in, &r); err != nil {
			return nil, fmt.Errorf("read record %d: %w", len(d.Records)+1, err)
		}
		if r.GetTable() == internalv1.SnapshotRecord_TABLE_UNSPECIFIED {
			return d, nil
		}
		d.Records[r.GetTable().String()+"/"+r.GetKey()] = string(r.GetValue())
	}
}

// Diff returns the differences to another state, or "". It ignores the applied index and the
// clock, which every command changes.
func (d *Dump) Diff(other *Dump) string {
	var diff []string
	a, b := proto.CloneOf(d.Meta), proto.CloneOf(other.Meta)
	for _, m := range []*internalv1.Meta{a, b} {
		m.AppliedIndex, m.AppliedTerm, m.Now = 0, 0, nil
	}
	if !proto.Equal(a, b) {
		diff = append(diff, fmt.Sprintf("meta: %v, then %v", a, b))
	}
	for _, k := range slices.Sorted(maps.Keys(d.Records)) {
		if v, ok := other.Records[k]; !ok {
			diff = append(diff, k+" is gone")
		} else if v != d.Records[k] {
			diff = append(diff, k+" has changed")
		}
	}
	for _, k := range slices.Sorted(maps.Keys(other.Records)) {
		if _, ok := d.Records[k]; !ok {
			diff = append(diff, k+" is new")
		}
	}
	return strings.Join(diff, "\n")
}
