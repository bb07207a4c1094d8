package runs

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

// Machines of one provider are powered on one after another, at the configured interval.
func TestPowerOnIsStaggered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, fake.Config{})
		l.Set = providers.SetOf(map[string]providers.Provider{"fake": fake.New(l.Fleet)},
			providers.WithStagger("fake", providers.Stagger{Interval: 5 * time.Second}))
		s := stepOf("s", &holdfastv1.Power{Action: "cycle"})
		s.TimeoutSeconds = 8 // of the step, without the wait for its turn
		l.Plan("p", s)
		var runs []string
		for i := range 4 {
			m := fmt.Sprint("m-", i)
			l.Machine(m)
			runs = append(runs, l.Start(m, "", "p", nil).GetRunId())
		}
		began := time.Now()
		ld := l.lead(Config{})
		for _, id := range runs {
			if run := l.Ended(id); run.GetPhase() != holdfastv1.Run_SUCCEEDED {
				t.Errorf("run: got %v, want SUCCEEDED", run)
			}
		}
		if took := time.Since(began); took < 15*time.Second {
			t.Errorf("got 4 running machines after %s, want at least 15 s", took)
		}
		ld.Stop()
	})
}
