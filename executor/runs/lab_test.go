package runs

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/executor/executortest"
	"github.com/holdfast-metal/holdfast/executor/step"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

// lab is a Lab whose leaders drive runs.
type lab struct{ *executortest.Lab }

func newLab(t *testing.T, c fake.Config) *lab {
	t.Helper()
	return &lab{executortest.New(t, c)}
}

// quick returns a configuration for machines that boot in milliseconds.
func quick() Config {
	return Config{
		Config: step.Config{PollMin: time.Millisecond, PollMax: 10 * time.Millisecond,
			SoftOff: 300 * time.Millisecond},
		RetryBase: 2 * time.Millisecond, RetryMax: 10 * time.Millisecond, LogFlush: 5 * time.Millisecond,
	}
}

// tenure is one term of an executor.
type tenure struct {
	*Executor
	*executortest.Leader
}

// lead starts the next term.
func (l *lab) lead(cfg Config) *tenure {
	l.T.Helper()
	e := New(cfg, l, l.FSM, l.Set)
	return &tenure{Executor: e, Leader: l.Lead(e.Run)}
}

func stepOf(name string, kind proto.Message) *holdfastv1.Step { return executortest.Step(name, kind) }
