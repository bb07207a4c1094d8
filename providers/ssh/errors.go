package sshexec

import (
	"context"
	"errors"
	"strings"

	"github.com/holdfast-metal/holdfast/providers"
)

// classify puts an error into a class, unless somebody has done so before or it is one of the
// context.
func classify(op string, err error, otherwise providers.Class) error {
	var classed *providers.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &classed):
		return err
	case errors.Is(err, context.Canceled):
		return providers.Errorf(providers.Transient, op, "%w", err)
	case errors.Is(err, context.DeadlineExceeded):
		return providers.Errorf(providers.Timeout, op, "no answer: %w", err)
	}
	return providers.Errorf(otherwise, op, "%w", err)
}

// broken marks an error of the connection: nobody knows whether the host got what was sent.
type broken struct{ error }

func (b *broken) Unwrap() error { return b.error }

// clip makes one line of what a host says, of at most n bytes.
func clip(s string, n int) string {
	s = strings.ToValidUTF8(strings.Join(strings.Fields(s), " "), "\uFFFD")
	if len(s) > n {
		s = strings.ToValidUTF8(s[:n], "") + "…"
	}
	return s
}
