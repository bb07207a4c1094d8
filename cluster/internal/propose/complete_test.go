package propose

import (
	"testing"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Older peers halt at a command of an unknown level instead of applying part of it, so the level
// must be in the log entry.
func TestComplete(t *testing.T) {
	tests := []struct {
		name string
		cmd  *internalv1.Command
		want uint32
	}{
		{"first level", &internalv1.Command{Op: &internalv1.Command_StartRun{}}, fsm.Level1},
		{"raised for a field", &internalv1.Command{FeatureLevel: 2, Op: &internalv1.Command_StartRun{}}, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := New(Config{}, nil, fsm.New())
			c.complete(tt.cmd)
			if got := tt.cmd.GetFeatureLevel(); got != tt.want {
				t.Errorf("got level %d, want %d", got, tt.want)
			}
			if tt.cmd.GetTime() == nil {
				t.Error("got a command without time")
			}
		})
	}
}
