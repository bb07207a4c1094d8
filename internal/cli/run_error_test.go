package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func TestExitCodeOfOtherErrors(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want int
	}{
		{nil, app.ExitOK},
		{errors.New("anything"), app.ExitError},
		{fmt.Errorf("wait: %w", context.DeadlineExceeded), app.ExitTimeout},
		{fmt.Errorf("start: %w", &runError{run: &holdfastv1.Run{}}), app.ExitRunFailed},
		{fmt.Errorf("serve: %w", app.Exitf(42, "")), 42},
		{fmt.Errorf("apply: %w", &fs.PathError{Op: "open", Path: "x", Err: fs.ErrNotExist}), app.ExitUsage},
		{fmt.Errorf("apply: %w", &fs.PathError{Op: "open", Path: "x", Err: fs.ErrPermission}), app.ExitError},
		{fs.ErrNotExist, app.ExitError},
	} {
		if got := app.ExitCode(tt.err); got != tt.want {
			t.Errorf("ExitCode(%v): got %d, want %d", tt.err, got, tt.want)
		}
	}
}
