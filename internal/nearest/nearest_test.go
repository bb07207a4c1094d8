package nearest_test

import (
	"testing"

	"github.com/holdfast-metal/holdfast/internal/nearest"
)

func TestOf(t *testing.T) {
	names := []string{"image", "cluster_ref", "force", "for", "url", "edit", "list"}
	for _, tt := range []struct{ written, want string }{
		{"imag", "image"},
		{"imgae", "image"},
		{"cluster-ref", "cluster_ref"},
		{"forces", "force"},
		{"forc", "force"},
		{"fox", "for"},
		{"lsit", "list"}, // a swap counts once
		{"kernel", ""},
		{"x", ""},
		{"", ""},
	} {
		if got := nearest.Of(tt.written, names); got != tt.want {
			t.Errorf("Of(%q): got %q, want %q", tt.written, got, tt.want)
		}
	}
}
