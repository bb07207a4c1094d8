package wait_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-metal/holdfast/internal/wait"
)

func TestSleep(t *testing.T) {
	canceled := func(ctx context.Context) (context.Context, context.CancelFunc) {
		ctx, stop := context.WithCancel(ctx)
		stop()
		return ctx, stop
	}
	after := func(d time.Duration) func(context.Context) (context.Context, context.CancelFunc) {
		return func(ctx context.Context) (context.Context, context.CancelFunc) { return context.WithTimeout(ctx, d) }
	}
	for _, tt := range []struct {
		name string
		ctx  func(context.Context) (context.Context, context.CancelFunc)
		d    time.Duration
		took time.Duration
		want error
	}{
		{"the whole time", context.WithCancel, 3 * time.Second, 3 * time.Second, nil},
		{"the context ends later", after(time.Minute), 3 * time.Second, 3 * time.Second, nil},
		{"the context ends first", after(time.Second), 3 * time.Second, time.Second, context.DeadlineExceeded},
		{"the context has ended", canceled, 3 * time.Second, 0, context.Canceled},
		{"no time", context.WithCancel, 0, 0, nil},
		{"less than no time", context.WithCancel, -time.Second, 0, nil},
		{"no time, and the context has ended", canceled, 0, 0, context.Canceled},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := tt.ctx(t.Context())
				defer stop()
				began := time.Now()
				if err := wait.Sleep(ctx, tt.d); !errors.Is(err, tt.want) {
					t.Errorf("error: got %v, want %v", err, tt.want)
				}
				if took := time.Since(began); took != tt.took {
					t.Errorf("time: got %s, want %s", took, tt.took)
				}
			})
		})
	}
}
