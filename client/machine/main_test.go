package machine

import (
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sleep advances the time of a synctest bubble, until all goroutines in it wait.
func sleep(d time.Duration) {
	time.Sleep(d) // sleep: fake clock
	synctest.Wait()
}
