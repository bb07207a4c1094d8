package server

import (
	"context"
	"log/slog"
	"maps"
	"slices"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// logNode writes what a command has just done to a node's state to the log of the leader, besides the history that keeps it (node state machine
// §Logging): what has a higher sequence number than before. It passes on what the command gave.
func (s *Server) logNode(ctx context.Context, before uint64, m *holdfastv1.Machine, err error) (*holdfastv1.Machine, error) {
	if err != nil {
		return m, err
	}
	var entries []*holdfastv1.HistoryEntry
	for e := range s.state.View().History(m.GetMachineId(), 0) {
		if e.GetSequence() <= before {
			break
		}
		if e.GetFacet() == "node" {
			entries = append(entries, e)
		}
	}
	for _, e := range slices.Backward(entries) {
		attrs := []slog.Attr{
			slog.String("machine", e.GetMachineId()), slog.Uint64("sequence", e.GetSequence()), slog.String("from", e.GetFrom()), slog.String("to", e.GetTo()),
			slog.String("triggered_by", e.GetTriggeredBy()), slog.String("principal", e.GetPrincipal()), slog.String("run", e.GetRunId()), slog.String("comment", e.GetComment()),
		}
		for _, key := range slices.Sorted(maps.Keys(e.GetMetadata())) {
			attrs = append(attrs, slog.String("metadata."+key, e.GetMetadata()[key]))
		}
		s.log.LogAttrs(ctx, slog.LevelInfo, "node state changed", attrs...)
	}
	return m, nil
}

// lastEntry gives the sequence number of the newest history entry of a node, by the machine's id or a MAC address; 0 when there is none.
func (s *Server) lastEntry(id string) uint64 {
	v := s.state.View()
	m, ok := v.NodeByID(id)
	if !ok {
		return 0
	}
	for e := range v.History(m.GetMachineId(), 0) {
		return e.GetSequence()
	}
	return 0
}
