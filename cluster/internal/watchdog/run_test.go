package watchdog

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-metal/holdfast/cluster/internal/raftfsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// quick applies every entry at once.
type quick struct{}

func (quick) Applying() *raftfsm.Applying { return nil }
func (quick) Busy(time.Duration) bool     { return false }

// An idle leader commits a command that changes nothing. If that is not committed, Run ends.
func TestRun(t *testing.T) {
	for _, tt := range []struct {
		name  string
		hangs bool
		want  error
	}{{"the disk writes", false, nil}, {"the disk hangs", true, ErrStalled}} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var committed, pending, notes atomic.Uint64
				yes := func() bool { return true }
				w := New(Config{
					DataDir: "d", NoOpInterval: 5 * time.Second, StallTimeout: 30 * time.Second,
					CommitIndex: committed.Load, Leads: yes, Ready: yes, Note: func() { notes.Add(1) },
					Commit: func(ctx context.Context, _ *internalv1.Command) error {
						pending.Add(1)
						if tt.hangs {
							<-ctx.Done()
							return ctx.Err()
						}
						committed.Add(1)
						return nil
					},
					Logger: slog.New(slog.DiscardHandler),
				}, quick{})
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				began := time.Now()
				if err := w.Run(ctx); !errors.Is(err, tt.want) {
					t.Errorf("got %v, want %v", err, tt.want)
				}
				if took := time.Since(began); tt.hangs && took != 30*time.Second {
					t.Errorf("got the error after %v, want it after the timeout", took)
				}
				if b := pending.Load(); tt.hangs && b != 1 || !tt.hangs && b < 9 {
					t.Errorf("got %d commands of an idle leader", b)
				}
				if notes.Load() == 0 {
					t.Error("the index of the state was never noted")
				}
				cancel()
			})
		})
	}
}
