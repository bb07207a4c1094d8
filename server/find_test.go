package server

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestFindIsBounded checks that a search ends after a number of records, also if none is visible.
func TestFindIsBounded(t *testing.T) {
	read := 0
	endless := func(yield func(int) bool) {
		for read = 1; yield(read / 2); read++ {
		}
	}
	key := func(n int) string { return string(rune('a' + n%26)) }
	if got := find(endless, 8, key, func(int) bool { return false }); got != nil || read != maxExamined+1 {
		t.Errorf("none visible: got %v after %d records", got, read)
	}
	got := find(endless, 3, key, func(n int) bool { return n != 1 })
	if diff := cmp.Diff([]int{0, 2, 3}, got); diff != "" {
		t.Errorf("found (-want +got):\n%s", diff)
	}
}
