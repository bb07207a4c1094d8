package sshexec

import (
	"context"
	"errors"

	"github.com/holdfast-metal/holdfast/providers"
)

// classify adds a class to an error that has none. Errors of the context have fixed classes.
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

// broken marks an error of the connection: it is unknown whether the host received the request.
type broken struct{ error }

func (b *broken) Unwrap() error { return b.error }
