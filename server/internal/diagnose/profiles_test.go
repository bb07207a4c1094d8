package diagnose

import (
	"runtime"
	"testing"
)

// TestContentionOfTwo checks that sampling stays on until the last of two requests has
// ended.
func TestContentionOfTwo(t *testing.T) {
	var c contention
	first, second, other := c.sample("mutex"), c.sample("mutex"), c.sample("block")
	for _, step := range []struct {
		end  func()
		want int
	}{{first, mutexFraction}, {other, mutexFraction}, {second, 0}} {
		step.end()
		if got := runtime.SetMutexProfileFraction(-1); got != step.want {
			t.Errorf("got the mutex profile fraction %d, want %d", got, step.want)
		}
	}
}
