package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"
)

func TestExitCodeOfOtherErrors(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want int
	}{
		{nil, ExitOK},
		{errors.New("anything"), ExitError},
		{fmt.Errorf("wait: %w", context.DeadlineExceeded), ExitTimeout},
		{fmt.Errorf("serve: %w", Exitf(42, "")), 42},
		{fmt.Errorf("apply: %w", &fs.PathError{Op: "open", Path: "x", Err: fs.ErrNotExist}), ExitUsage},
		{fmt.Errorf("apply: %w", &fs.PathError{Op: "open", Path: "x", Err: fs.ErrPermission}), ExitError},
		{fs.ErrNotExist, ExitError},
	} {
		if got := ExitCode(tt.err); got != tt.want {
			t.Errorf("ExitCode(%v): got %d, want %d", tt.err, got, tt.want)
		}
	}
}
