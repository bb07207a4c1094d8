package output

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
)

// WatchPolled prints the resources that read returns, and again each one of which the significant
// part has changed, until the context ends.
func WatchPolled[M proto.Message](
	ctx context.Context, a *app.App, o *Flags, k Kind[M], every time.Duration, significant func(M) M, read func() ([]M,
		error),
) error {
	ctx, cancel := a.Patience(ctx, 0)
	defer cancel()
	tick := time.NewTicker(every)
	defer tick.Stop()
	printed := map[string]M{}
	t := k.NewTable(o)
	header := true
	for {
		items, err := read()
		if err != nil {
			return Ended(ctx, err)
		}
		var changed []M
		now := make(map[string]M, len(items))
		for _, m := range items {
			seen := significant(m)
			now[k.Name(m)] = seen
			if before, ok := printed[k.Name(m)]; !ok || !proto.Equal(seen, before) {
				changed = append(changed, m)
			}
		}
		for id := range printed {
			if _, ok := now[id]; !ok {
				a.Note("note: %s %s is gone, or no longer matches", k.Noun, id)
			}
		}
		printed = now
		if err := PrintChanged(a, o, k, t, changed, header); err != nil {
			return err
		}
		header = header && len(changed) == 0
		select {
		case <-tick.C:
		case <-ctx.Done():
			return Ended(ctx, ctx.Err())
		}
	}
}

// PrintChanged prints resources of a watch in the table t, or in the format of o. header says
// whether the table has one.
func PrintChanged[M proto.Message](a *app.App, o *Flags, k Kind[M], t *render.Table, items []M, header bool) error {
	switch {
	case len(items) == 0:
		return nil
	case o.Format == FormatName:
		return PrintNames(a, k, items)
	case !o.Table():
		for _, m := range items {
			if err := PrintStream(a, o, m); err != nil {
				return err
			}
		}
		return nil
	}
	for _, m := range items {
		t.Row(k.cells(o, m, a.Now())...)
	}
	defer t.Clear()
	return PrintTable(a, &Flags{Format: o.Format, NoHeaders: o.NoHeaders || !header}, t)
}

// FirstOf returns a function that reports whether an id is one of the first ids that it was called
// with, at most limit of them; 0: all.
func FirstOf(limit int) func(id string) bool {
	seen := map[string]bool{}
	return func(id string) bool {
		if limit <= 0 || seen[id] {
			return true
		}
		if len(seen) == limit {
			return false
		}
		seen[id] = true
		return true
	}
}

// Ended returns the error of a watch without an end: nil if the user stopped it. A watch with an
// end of its own does not use it, because it was cut off.
func Ended(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return nil
	}
	return err
}

// WatchInterval is the default poll interval: the API streams runs, not machines.
const WatchInterval = 2 * time.Second
