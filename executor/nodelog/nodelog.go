// Package nodelog logs the state changes of nodes and agents, and the status of pools. It changes
// nothing.
package nodelog

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/cluster/leader"
	"github.com/holdfast-metal/holdfast/executor/task"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/describe"
	"github.com/holdfast-metal/holdfast/internal/wait"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// minPause is the minimum time between two reads of the state.
const minPause = 20 * time.Millisecond

// batch is the number of events per read.
const batch = 256

// Log is the leader task that logs the state changes of nodes and agents, and the
// status of pools. The history and the events contain them too, but their specifications
// require a log.
type Log struct {
	state task.State
	log   *slog.Logger
}

// New returns a Log; Run it in each term.
func New(state task.State, log *slog.Logger) *Log { return &Log{state, log} }

// Run implements leader.Task. Changes between two leaders are not logged; the
// history has them.
func (l *Log) Run(ctx context.Context, _ leader.Term) error {
	cursor := l.state.View().LastEvent()
	for {
		changed := l.state.Changed()
		cursor = l.follow(ctx, l.state.View(), cursor)
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
		if wait.Sleep(ctx, minPause) != nil {
			return nil
		}
	}
}

// follow logs the events of a view after a cursor, and returns the next cursor.
func (l *Log) follow(ctx context.Context, v *fsm.View, cursor uint64) uint64 {
	for cursor < v.LastEvent() {
		events, err := v.Events(max(cursor+1, v.FirstEvent())-1, batch)
		if err != nil || len(events) == 0 {
			return v.LastEvent()
		}
		for _, e := range events {
			switch {
			case e.GetChange().GetFacet() == "node":
				c := proto.CloneOf(e.GetChange()) // in the words of the node API
				c.From, c.To = strings.ToLower(c.GetFrom()), strings.ToLower(c.GetTo())
				c.TriggeredBy = describe.NodeTrigger(c.GetTriggeredBy())
				l.entry(ctx, "node state changed", c)
			case e.GetChange().GetFacet() == "agent":
				l.entry(ctx, "agent state changed", e.GetChange())
			case e.GetPool() != nil:
				p := e.GetPool()
				l.log.LogAttrs(ctx, slog.LevelInfo, "pool status changed",
					slog.String("pool", p.GetPoolId()),
					slog.String("status", p.GetStatus().String()),
					slog.String("provider", p.GetProvider()),
					slog.String("reason", p.GetStatusReason()))
			}
			cursor = e.GetCursor()
		}
	}
	return cursor
}

func (l *Log) entry(ctx context.Context, what string, e *holdfastv1.HistoryEntry) {
	attrs := []slog.Attr{
		slog.String("machine", e.GetMachineId()),
		slog.Uint64("sequence", e.GetSequence()),
		slog.String("from", e.GetFrom()),
		slog.String("to", e.GetTo()),
		slog.String("triggered_by", e.GetTriggeredBy()),
		slog.String("principal", e.GetPrincipal()),
		slog.String("run", e.GetRunId()),
		slog.String("comment", e.GetComment()),
	}
	for _, key := range slices.Sorted(maps.Keys(e.GetMetadata())) {
		attrs = append(attrs, slog.String("metadata."+key, e.GetMetadata()[key]))
	}
	l.log.LogAttrs(ctx, slog.LevelInfo, what, attrs...)
}
