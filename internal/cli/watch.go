package cli

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/internal/cli/render"
)

// watchPolled prints the resources that read returns, and again each one of which the significant
// part has changed, until the context ends.
func watchPolled[M proto.Message](
	ctx context.Context, a *app, o *output, k kind[M], every time.Duration, significant func(M) M, read func() ([]M,
		error),
) error {
	ctx, cancel := a.patience(ctx, 0)
	defer cancel()
	tick := time.NewTicker(every)
	defer tick.Stop()
	printed := map[string]M{}
	t := k.newTable(o)
	header := true
	for {
		items, err := read()
		if err != nil {
			return ended(ctx, err)
		}
		var changed []M
		now := make(map[string]M, len(items))
		for _, m := range items {
			seen := significant(m)
			now[k.name(m)] = seen
			if before, ok := printed[k.name(m)]; !ok || !proto.Equal(seen, before) {
				changed = append(changed, m)
			}
		}
		for id := range printed {
			if _, ok := now[id]; !ok {
				a.note("note: %s %s is gone, or no longer matches", k.noun, id)
			}
		}
		printed = now
		if err := printChanged(a, o, k, t, changed, header); err != nil {
			return err
		}
		header = header && len(changed) == 0
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ended(ctx, ctx.Err())
		}
	}
}

// printChanged prints resources of a watch in the table t, or in the format of o. header says
// whether the table has one.
func printChanged[M proto.Message](a *app, o *output, k kind[M], t *render.Table, items []M, header bool) error {
	switch {
	case len(items) == 0:
		return nil
	case o.format == formatName:
		return printNames(a, k, items)
	case !o.table():
		for _, m := range items {
			if err := printStream(a, o, m); err != nil {
				return err
			}
		}
		return nil
	}
	for _, m := range items {
		t.Row(k.cells(o, m, a.Now())...)
	}
	defer t.Clear()
	return printTable(a, &output{format: o.format, noHeaders: o.noHeaders || !header}, t)
}

// firstOf returns a function that reports whether an id is one of the first ids that it was called
// with, at most limit of them; 0: all.
func firstOf(limit int) func(id string) bool {
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

// ended returns the error of a watch without an end: nil if the user stopped it. A watch with an
// end of its own does not use it, because it was cut off.
func ended(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return nil
	}
	return err
}

// watchInterval is the default poll interval: the API streams runs, not machines.
const watchInterval = 2 * time.Second
