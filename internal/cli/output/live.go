package output

import (
	"context"
	"io"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/progress"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// redraw is the interval at which a block is drawn without events, to update durations; frame is
// the minimum interval between two drawings.
const (
	redraw = time.Second
	frame  = 50 * time.Millisecond
)

// DrawRuns draws events as a block on a terminal until the watch ends.
func DrawRuns(ctx context.Context, a *app.App, w io.Writer, steps bool, watch Watcher) error {
	return DrawRunsBelow(ctx, a, w, func() []render.Line { return nil }, steps, watch)
}

// DrawRunsBelow is DrawRuns with lines above the block.
func DrawRunsBelow(
	ctx context.Context, a *app.App, w io.Writer, head func() []render.Line, steps bool, watch Watcher,
) error {
	events := make(chan *holdfastv1.RunEvent)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(events)
		return watch(ctx, func(e *holdfastv1.RunEvent) error {
			select {
			case events <- e:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	})
	g.Go(func() error { return drawBlock(a, w, head, progress.NewBoard(steps), events) })
	return g.Wait()
}

// drawBlock redraws the head and the board until the events end.
func drawBlock(a *app.App,
	w io.Writer, head func() []render.Line, board *progress.Board, events <-chan *holdfastv1.RunEvent,
) error {
	block := render.NewBlock(render.Unwrap(w), a.Color(w)) // its lines are clean
	tick := time.NewTicker(redraw)
	defer tick.Stop()
	var above []render.Line
	var next time.Time
	var due <-chan time.Time
	flush := func() error {
		width, height, _ := a.Size(w)
		err := block.Draw(above, append(head(), board.Lines(a.Now())...), width, height)
		above, due, next = nil, nil, time.Now().Add(frame)
		return err
	}
	for {
		select {
		case e, ok := <-events:
			if !ok {
				return flush()
			}
			above = append(above, board.Add(e.GetSnapshot(), a.Now())...)
			if due == nil {
				due = time.After(time.Until(next))
			}
		case <-due:
			if err := flush(); err != nil {
				return err
			}
		case <-tick.C:
			if err := flush(); err != nil {
				return err
			}
		}
	}
}

// Watcher calls f for each event until the stream ends.
type Watcher func(ctx context.Context, f func(*holdfastv1.RunEvent) error) error
