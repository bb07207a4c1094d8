package turnstile

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/proto/holdfast/stepkind"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func TestClassOf(t *testing.T) {
	plan := func(steps ...proto.Message) *holdfastv1.Plan {
		p := &holdfastv1.Plan{}
		for _, s := range steps {
			p.Steps = append(p.Steps, stepkind.With(s))
		}
		return p
	}
	for _, tt := range []struct {
		name string
		plan *holdfastv1.Plan
		want Class
	}{
		{"no plan", nil, Ordinary},
		{"a query", plan(&holdfastv1.Inspect{}, &holdfastv1.ReadInventory{}), Ordinary},
		{"a power cycle", plan(&holdfastv1.Power{Action: "cycle"}), Ordinary},
		{"a console", plan(&holdfastv1.SerialConsole{}), Urgent},
		{"an installation", plan(&holdfastv1.SshCommand{Command: "true"}, &holdfastv1.RepaveImage{}), Urgent},
		{"a return to the vendor", plan(&holdfastv1.RmaAction{}), Urgent},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := ClassOf(tt.plan); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// A run that waits to continue gets the next place, even if a run that begins asks before it.
func TestContinuingRunsPassFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(1)
		if !s.TryEnter(Ordinary) {
			t.Fatal("got no place, want the only one")
		}
		var passed bool
		go func() { passed = s.Enter(t.Context(), Ordinary) == nil }()
		synctest.Wait()
		if s.TryEnter(Ordinary) {
			t.Error("got a place while all are held, want none")
		}
		s.Leave(Ordinary)
		if s.TryEnter(Ordinary) {
			t.Error("a run that begins got the place, want it to be of the run that waits")
		}
		synctest.Wait()
		if !passed {
			t.Error("the run that waited has no place, want one")
		}
	})
}

func TestClassesDoNotWaitForEachOther(t *testing.T) {
	s := New(1)
	for _, c := range []Class{Ordinary, Urgent} {
		if !s.TryEnter(c) {
			t.Errorf("class %v: got no place, want one", c)
		}
	}
}

// If the context of a waiting run ends, the run returns at once. A run that begins, which had to
// wait for it, is notified.
func TestCanceledRunDoesNotWait(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(context.Context) (context.Context, context.CancelFunc)
		want error
	}{
		{"canceled", func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(time.Second, cancel)
			return ctx, cancel
		}, context.Canceled},
		{"out of time", func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Second)
		}, context.DeadlineExceeded},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := New(1)
				s.TryEnter(Ordinary)
				ctx, stop := tt.end(t.Context())
				defer stop()
				began := time.Now()
				if err := s.Enter(ctx, Ordinary); !errors.Is(err, tt.want) {
					t.Errorf("error: got %v, want %v", err, tt.want)
				}
				if took := time.Since(began); took != time.Second {
					t.Errorf("time: got %s, want 1s", took)
				}
				select {
				case <-s.Freed():
				default:
					t.Error("Freed: got no value, want one")
				}
			})
		})
	}
}
