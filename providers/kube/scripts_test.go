package kube

import (
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A prepared script holds a token, so it is dropped if another leader continues its attempt.
func TestOldScriptsAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := New(nil, nil)
		j.keep("r-1-join-1", "one")
		time.Sleep(scriptAge / 2) // sleep: in a bubble
		j.keep("r-2-join-1", "two")
		time.Sleep(scriptAge / 2) // sleep: in a bubble
		j.keep("r-3-join-1", "three")
		got := slices.Sorted(maps.Keys(j.scripts))
		if diff := cmp.Diff([]string{"r-2-join-1", "r-3-join-1"}, got); diff != "" {
			t.Errorf("kept scripts (-want +got):\n%s", diff)
		}
	})
}
