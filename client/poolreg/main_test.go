package poolreg

import (
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sleep lets time pass in a synctest bubble, until all in it wait again.
func sleep(d time.Duration) {
	time.Sleep(d) // sleep: the clock is that of the bubble
	synctest.Wait()
}
