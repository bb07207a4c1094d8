package start

import (
	"fmt"
	"testing"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func TestExitCodeOfAFailedRun(t *testing.T) {
	err := fmt.Errorf("start: %w", &runError{run: &holdfastv1.Run{}})
	if got := app.ExitCode(err); got != app.ExitRunFailed {
		t.Errorf("got %d, want %d", got, app.ExitRunFailed)
	}
}
