package marks

import (
	"testing"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

func list(instance string, at, count uint64, ids ...uint64) *internalv1.Marks {
	return &internalv1.Marks{Instance: instance, AdmittedAt: at, Count: count, Ids: ids}
}

func TestStale(t *testing.T) {
	own := list("i", 70, 5, 3, 4, 5)
	for _, tt := range []struct {
		name          string
		k             *internalv1.Marks
		stale, follow bool // whether k shows that own is old, and whether k may replace it
	}{
		{"nothing", nil, false, false},
		{"no mark", list("i", 70, 5), false, false},
		{"the same", own, false, false},
		{"the newest", list("i", 70, 5, 5), false, false},
		{"an older one", list("i", 70, 4, 4), false, false},
		{"older than all", list("i", 70, 2, 9), false, false},
		{"a newer one", list("i", 70, 6, 6), true, true},
		{"newer ones", list("i", 70, 6, 4, 5, 6), true, true},
		{"much newer ones", list("i", 70, 99, 98, 99), true, true},
		{"a fork", list("i", 70, 4, 9), true, false},
		{"a fork at the newest", list("i", 70, 5, 9), true, false},
		{"a longer fork", list("i", 70, 7, 4, 9, 9, 9), true, false},
		{"an earlier instance", list("h", 60, 99, 1), false, false},
		{"a founder", list("h", 0, 99, 1), false, false},
		{"a later instance", list("j", 80, 1, 1), true, true},
		{"another instance of the same index", list("j", 70, 9, 1), false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Stale(own, tt.k); got != tt.stale {
				t.Errorf("stale: got %t, want %t", got, tt.stale)
			}
			if got := follows(tt.k, own); got != tt.follow {
				t.Errorf("follows: got %t, want %t", got, tt.follow)
			}
		})
	}
}

func TestSameFile(t *testing.T) {
	const at = 1_700_000_000_000_000_000
	for _, tt := range []struct {
		name string
		b    int64
		want bool
	}{
		{"the same", at + 123, true},
		{"without its nanoseconds", at, true},
		{"in the same second", at + 124, false},
		{"a second later", at + 1_000_000_123, false},
	} {
		if got := same(at+123, tt.b); got != tt.want {
			t.Errorf("%s: got %t, want %t", tt.name, got, tt.want)
		}
		if got := same(tt.b, at+123); got != tt.want {
			t.Errorf("%s, other way round: got %t, want %t", tt.name, got, tt.want)
		}
	}
}
