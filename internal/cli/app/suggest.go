package app

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/nearest"
)

// suggestedError is the error of a name that does not exist, with the name that was meant.
type suggestedError struct {
	error
	name string
}

// Error returns the question before the command that lists the names.
func (e *suggestedError) Error() string {
	cause, see, more := strings.Cut(e.error.Error(), ": see: ")
	msg := cause + ": did you mean " + e.name + "?"
	if more {
		msg += ": see: " + see
	}
	return msg
}

func (e *suggestedError) Unwrap() error { return e.error }

// notFound matches the server's message about a name that does not exist.
var notFound = regexp.MustCompile(` "([^"]+)" not found`)

// suggest adds the name that was meant to the error of a name that does not exist. It reads the
// names from the state of the answering peer, for two seconds at most.
func (a *App) suggest(ctx context.Context, c *client.Client, err error) error {
	noun, is := strings.CutSuffix(client.Reason(err), "_NOT_FOUND")
	names, known := a.Names[noun]
	if _, many := errors.AsType[*severalError](err); !is || !known || many {
		return err
	}
	written := notFound.FindStringSubmatch(err.Error())
	if written == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	there := names(client.WithConsistency(ctx, client.Consistency{Stale: true}), c)
	if like := nearest.Name(written[1], there); like != "" {
		return &suggestedError{err, like}
	}
	return err
}
