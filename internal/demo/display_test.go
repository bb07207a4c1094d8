package demo

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestTicker(t *testing.T) {
	var out strings.Builder
	d := &ticker{w: &out}
	v := view{Events: []event{{Text: "starting"}}}
	show := func() {
		t.Helper()
		if err := d.show(v); err != nil {
			t.Fatal(err)
		}
	}
	show()
	show()
	for range maxRetries + 3 {
		v.Events = append(v.Events, event{At: time.Second, Kind: warning, Text: "a retry", Retry: true})
	}
	v.Events = append(v.Events, event{At: 2 * time.Second, Text: "takes over 1", Unsettled: true},
		event{At: 2 * time.Second, Text: "half", Quiet: true})
	show()
	i := len(v.Events) - 2
	v.Events[i].Text, v.Events[i].Unsettled = "takes over 2", false
	show()
	v.Events = append(v.Events, event{At: 3 * time.Second, Text: "the end", Unsettled: true})
	if err := d.end(v); err != nil {
		t.Fatal(err)
	}
	want := "     0.0 s  starting\n" + strings.Repeat("     1.0 s  a retry\n", maxRetries) +
		"     2.0 s  takes over 2\n     2.0 s  half\n     3.0 s  the end\n            and 3 more retries\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

// fakeTerminal is a console on a terminal of a size.
func fakeTerminal(w io.Writer, width, height *int) *console {
	return &console{progress: w, glyphs: asciiGlyphs(), size: func() (int, int, bool) { return *width, *height, true }}
}

func TestScreen(t *testing.T) {
	var out strings.Builder
	width, height := 41, 8
	c := fakeTerminal(&out, &width, &height)
	d := c.display()
	take := func() string {
		s := out.String()
		out.Reset()
		return s
	}
	v := view{Peers: []peerView{{ID: "n1"}},
		Events: []event{{Text: "something that is longer than a line", At: 3 * time.Second}, {Text: "quiet", Quiet: true}}}
	if err := d.show(v); err != nil {
		t.Fatal(err)
	}
	first := []string{"Holdfast demo  0 machines  -  plan/repa~", "peers  - n1 starting ", "steps  -", "", "",
		"  3.0 s - something that is longer than~"}
	lines := func(all []string) string {
		return strings.Join(all, clearLine+"\r\n") + clearLine + "\r\n" + clearBelow
	}
	if diff := cmp.Diff(hideCursor+lines(first), take()); diff != "" {
		t.Errorf("first picture (-want +got):\n%s", diff)
	}
	v.Elapsed = time.Second
	if err := d.show(v); err != nil {
		t.Fatal(err)
	}
	if got, want := take(), "\x1b[6A\r"; !strings.HasPrefix(got, want) {
		t.Errorf("second picture: got %q at its start, want 6 lines up: %q", got[:min(len(got), 8)], want)
	}
	// At half the width, the two lines of 40 columns take two each, but only the lines of the
	// terminal can be reached.
	width, height = 21, 30
	if err := d.show(v); err != nil {
		t.Fatal(err)
	}
	if got, want := take(), "\x1b[8A\r"; !strings.HasPrefix(got, want) {
		t.Errorf("picture on a narrower terminal: got %q at its start, want %q", got[:min(len(got), 8)], want)
	}
	if err := d.end(v); err != nil {
		t.Fatal(err)
	}
	if got := take(); !strings.HasSuffix(got, showCursor) {
		t.Errorf("at the end: got %q, want the cursor restored", got)
	}
}

// brokenPipe is a reader that has closed its end.
type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestWatchEndsWithReader(t *testing.T) {
	b, _ := newTestBoard(1)
	b.say(plain, "something")
	err := watch(t.Context(), b, &ticker{w: brokenPipe{}})
	if err == nil || err.Error() != "draw: broken pipe" {
		t.Errorf("got %v, want a broken pipe", err)
	}
}
