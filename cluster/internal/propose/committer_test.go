package propose

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-metal/holdfast/cluster/outcome"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

func noOp(principal string) *internalv1.Command {
	return &internalv1.Command{Principal: principal, Op: &internalv1.Command_NoOp{NoOp: &internalv1.NoOp{}}}
}

// The outcome of a command is known to its caller: a command that this peer has not proposed is
// certainly not applied, and one that it has may be.
func TestOutcomesOfCommands(t *testing.T) {
	for _, tt := range []struct {
		name  string
		do    func(ctx context.Context, cm *Committer, l *fakeLog, ended chan struct{}, cancel func())
		ready error
		run   bool // proposes
		want  outcome.Kind
	}{
		{"this peer does not lead", nil, outcome.ErrNotLeader, true, outcome.NotApplied},
		{"committed", func(_ context.Context, _ *Committer, l *fakeLog, _ chan struct{}, _ func()) { l.commit <- nil }, nil,
			true, 0},
		{"canceled in the queue", func(_ context.Context, _ *Committer, _ *fakeLog, _ chan struct{}, cancel func()) {
			cancel()
		}, nil, false, outcome.NotApplied},
		{"canceled after it was proposed",
			func(_ context.Context, _ *Committer, _ *fakeLog, _ chan struct{}, cancel func()) { cancel() }, nil, true,
			outcome.Unknown},
		{"this peer stops after it was proposed",
			func(_ context.Context, _ *Committer, _ *fakeLog, ended chan struct{}, _ func()) { close(ended) }, nil, true,
			outcome.Unknown},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, ended := &fakeLog{commit: make(chan error)}, make(chan struct{})
				var counted []*outcome.Error
				cm := New(Config{
					Ready: func() error { return tt.ready }, Leader: func() string { return "p2" }, Ended: ended,
					Stopping: func() error { return outcome.ErrStopping }, Began: time.Now(), Batched: func(int) {},
					Applied: func(_ time.Duration, err *outcome.Error) { counted = append(counted, err) },
				}, l, fsm.New())
				life, stop := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() {
					defer close(done)
					if tt.run {
						_ = cm.Run(life)
					}
				}()
				ctx, cancel := context.WithCancel(t.Context())
				answer := make(chan error, 1)
				go func() {
					_, err := cm.Apply(ctx, noOp("a"))
					answer <- err
				}()
				synctest.Wait()
				if tt.do != nil {
					tt.do(ctx, cm, l, ended, cancel)
				}
				err := <-answer
				var o *outcome.Error
				if errors.As(err, &o); (err != nil) != (tt.want != 0) || o != nil && (o.Outcome != tt.want || o.Leader != "p2") {
					t.Errorf("got %v, want %v and the leader", err, tt.want)
				}
				if len(counted) != 1 || (counted[0] != nil) != (tt.want != 0) {
					t.Errorf("got %v counted, want one command", counted)
				}
				cancel()
				stop()
				<-done
				close(l.commit)
			})
		})
	}
}
