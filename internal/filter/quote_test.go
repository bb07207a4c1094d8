package filter

import (
	"testing"

	"github.com/holdfast-metal/holdfast/client"
)

// TestQuote checks that the SDK quotes as the server reads.
func TestQuote(t *testing.T) {
	for _, text := range []string{"", "gpu", `a "b" \ c`, "*", `\*`, "bücher 机", "a\n\t\x00", "\u200b", "\xff"} {
		if got, want := client.Quote(text), Quote(text); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}
