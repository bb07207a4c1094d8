package propose

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/holdfast-metal/holdfast/cluster/internal/wait"
	"github.com/holdfast-metal/holdfast/cluster/outcome"
)

func TestRaftOutcome(t *testing.T) {
	for _, tc := range []struct {
		err        error
		dispatched bool
		want       outcome.Kind
	}{
		{raft.ErrNotLeader, false, outcome.NotApplied},
		{raft.ErrLeadershipTransferInProgress, false, outcome.NotApplied},
		{raft.ErrEnqueueTimeout, false, outcome.NotApplied},
		{raft.ErrAbortedByRestore, true, outcome.NotApplied},
		{raft.ErrRaftShutdown, false, outcome.NotApplied},
		{raft.ErrRaftShutdown, true, outcome.Unknown},
		{raft.ErrLeadershipLost, true, outcome.Unknown},
		{raft.ErrLeadershipLost, false, outcome.Unknown},
		{errors.New("write log: no space left on device"), true, outcome.Unknown},
		{wait.ErrStopped, true, outcome.Unknown},
		{context.DeadlineExceeded, false, outcome.Unknown},
	} {
		t.Run(fmt.Sprintf("%v/%t", tc.err, tc.dispatched), func(t *testing.T) {
			if got := Outcome(fmt.Errorf("wrapped: %w", tc.err), tc.dispatched); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}
