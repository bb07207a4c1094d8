package diagnose

import (
	"runtime"
	"testing"
)

// TestContentionOfTwo checks that sampling stays on until the last of two requests has
// ended.
func TestContentionOfTwo(t *testing.T) {
	var c contention
	for _, profile := range []string{"mutex", "mutex", "block"} {
		c.add(profile, 1)
	}
	for _, step := range []struct {
		ends string
		want int
	}{{"mutex", mutexFraction}, {"block", mutexFraction}, {"mutex", 0}} {
		c.add(step.ends, -1)
		if got := runtime.SetMutexProfileFraction(-1); got != step.want {
			t.Errorf("got the mutex profile fraction %d, want %d", got, step.want)
		}
	}
}
