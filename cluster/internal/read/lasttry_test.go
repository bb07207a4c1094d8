package read

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-metal/holdfast/cluster/outcome"
)

// The last try of a call is known to the call, and not shown to its caller.
func TestLastTry(t *testing.T) {
	err := error(&outcome.Error{Outcome: outcome.NotApplied,
		Err: lastTry{fmt.Errorf("%w: n2 does not answer", outcome.ErrNoLeader)}})
	if !errors.Is(err, ErrNoMoreTime) || !errors.Is(err, outcome.ErrNoLeader) {
		t.Errorf("got %v, want an error for the last try without a leader", err)
	}
	if got, want := err.Error(), "no leader: n2 does not answer"; !strings.HasSuffix(got, want) {
		t.Errorf("got %q, want %q at the end", got, want)
	}
}
