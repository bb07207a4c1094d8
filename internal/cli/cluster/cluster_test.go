package cluster

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestMeter checks that the pause of a drill includes writes that are still refused at its end.
func TestMeter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		m := &meter{last: begin}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		m.run(ctx, func(context.Context) error {
			if time.Since(begin) < time.Second {
				return nil
			}
			return errors.New("no leader")
		})
		if got := m.longest.Round(100 * time.Millisecond); got != 2*time.Second {
			t.Errorf("got a pause of %s, want 2s", got)
		}
		if m.acked == 0 || m.refused == 0 {
			t.Errorf("got %d acknowledged and %d refused writes, want some of both", m.acked, m.refused)
		}
	})
}
