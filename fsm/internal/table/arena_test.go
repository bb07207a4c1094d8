package table

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

// TestRoomKeeps checks that stored bytes stay unchanged, whatever is stored later or appended
// to them.
func TestRoomKeeps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r arena
		var kept, want [][]byte
		for _, n := range rapid.SliceOf(rapid.OneOf(rapid.IntRange(0, 64), rapid.IntRange(0, arenaSize/4))).Draw(t, "sizes") {
			b := bytes.Repeat([]byte{byte(len(kept))}, n)
			kept, want = append(kept, r.keep(b)), append(want, bytes.Clone(b))
			clear(b)
			if last := kept[len(kept)-1]; len(last) > 0 {
				_ = append(last, 0xff)
			}
		}
		for i := range want {
			if !bytes.Equal(kept[i], want[i]) || textOf(kept[i]) != string(want[i]) {
				t.Fatalf("number %d has %d bytes that begin with %x, want %d with %x", i, len(kept[i]),
					kept[i][:min(4, len(kept[i]))], len(want[i]), want[i][:min(4, len(want[i]))])
			}
		}
	})
}
