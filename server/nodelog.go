package server

import (
	"context"
	"log/slog"
	"maps"
	"slices"

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// NodeLog is the leader task that writes every change of a node's state to the log, besides the history that keeps it (node state machine
// §Logging), whoever made it: a person, a report, a run.
type NodeLog struct {
	state State
	log   *slog.Logger
}

// NewNodeLog gives a NodeLog; Run it in each term.
func NewNodeLog(state State, log *slog.Logger) *NodeLog { return &NodeLog{state, log} }

// Run implements cluster.LeaderTask. What happened between two leaders is in the history alone.
func (l *NodeLog) Run(ctx context.Context, _ cluster.Term) error {
	cursor := l.state.View().LastNews()
	for {
		changed := l.state.Changed()
		cursor = l.follow(ctx, l.state.View(), cursor)
		if pause(ctx, nil, newsPause, changed) != nil {
			return nil
		}
	}
}

// follow logs what a view has after a cursor, and gives the next one.
func (l *NodeLog) follow(ctx context.Context, v *fsm.View, cursor uint64) uint64 {
	for cursor < v.LastNews() {
		events, err := v.News(max(cursor+1, v.FirstNews())-1, eventBatch)
		if err != nil || len(events) == 0 {
			return v.LastNews()
		}
		for _, e := range events {
			if e.GetChange().GetFacet() == "node" {
				l.entry(ctx, e.GetChange())
			}
			cursor = e.GetCursor()
		}
	}
	return cursor
}

func (l *NodeLog) entry(ctx context.Context, e *holdfastv1.HistoryEntry) {
	attrs := []slog.Attr{
		slog.String("machine", e.GetMachineId()), slog.Uint64("sequence", e.GetSequence()), slog.String("from", e.GetFrom()), slog.String("to", e.GetTo()),
		slog.String("triggered_by", e.GetTriggeredBy()), slog.String("principal", e.GetPrincipal()), slog.String("run", e.GetRunId()), slog.String("comment", e.GetComment()),
	}
	for _, key := range slices.Sorted(maps.Keys(e.GetMetadata())) {
		attrs = append(attrs, slog.String("metadata."+key, e.GetMetadata()[key]))
	}
	l.log.LogAttrs(ctx, slog.LevelInfo, "node state changed", attrs...)
}
