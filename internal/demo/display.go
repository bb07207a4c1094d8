package demo

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"
)

// display shows the progress.
type display interface {
	// show shows a view. It is called about twelve times a second.
	show(v view) error
	// end shows the last view and restores the terminal.
	end(v view) error
}

// redraw is the interval of updates.
const redraw = 80 * time.Millisecond

// watch updates a display until ctx ends.
func watch(ctx context.Context, b *board, d display) error {
	tick := time.NewTicker(redraw)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return d.end(b.view())
		case <-tick.C:
			if err := d.show(b.view()); err != nil {
				return fmt.Errorf("draw: %w", err)
			}
		}
	}
}

// ticker prints a line for each event. It prints the first few retries and counts the others.
type ticker struct {
	w       io.Writer
	printed int // events
	retries int
	hidden  int // retries that were not printed
}

// maxRetries is the maximum number of retries that are printed.
const maxRetries = 8

func (t *ticker) show(v view) error { return t.print(v, false) }

func (t *ticker) end(v view) error {
	if err := t.print(v, true); err != nil {
		return err
	}
	if t.hidden > 0 {
		_, err := fmt.Fprintf(t.w, "%10s  and %s\n", "", plural(t.hidden, "more retry", "more retries"))
		return err
	}
	return nil
}

func (t *ticker) print(v view, last bool) error {
	var b strings.Builder
	for _, e := range v.Events[t.printed:] {
		if e.Unsettled && !last {
			break
		}
		t.printed++
		if e.Retry {
			if t.retries++; t.retries > maxRetries {
				t.hidden++
				continue
			}
		}
		fmt.Fprintf(&b, "%10s  %s\n", seconds(e.At), e.Text)
	}
	if b.Len() == 0 {
		return nil
	}
	_, err := io.WriteString(t.w, b.String())
	return err
}
