package access

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/guard"
	"github.com/holdfast-metal/holdfast/providers/internal/text"
)

// ErrClosed is the error of operations after the provider was closed.
var ErrClosed = errors.New("provider is closed")

// reply is an error that is an answer of the BMC and knows its class, such as an error response of
// a Redfish service.
type reply interface {
	error
	Class() providers.Class
}

// Classify adds a class to an error that has none. effect is true if a request that changes
// something was sent. If the answer to it is missing, the class is Timeout: the outcome is unknown.
func Classify(op string, err error, effect bool) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*providers.Error](err); ok {
		return err
	}
	if r, ok := errors.AsType[reply](err); ok {
		return providers.Errorf(r.Class(), op, "%w", err)
	}
	class, err := guard.Classify(err, effect)
	var said *answered
	if class == providers.Timeout && errors.As(err, &said) && !errors.Is(err, context.DeadlineExceeded) {
		class = providers.Transient // the answer arrived, so the outcome is known
	}
	return providers.Errorf(class, op, "%w", err)
}

// Silent reports whether err means that the BMC did not answer. Such errors open the circuit
// breaker.
func Silent(err error) bool {
	if err == nil || IsAnswered(err) {
		return false
	}
	switch providers.ClassOf(err) {
	case providers.Auth, providers.Unsupported, providers.Late, providers.Gone:
		return false
	}
	return true
}

// answered marks an error that was found in an answer of the BMC: the BMC is there.
type answered struct{ error }

func (a *answered) Unwrap() error { return a.error }

// IsAnswered reports whether err was found in an answer of the BMC.
func IsAnswered(err error) bool {
	_, ok := errors.AsType[*answered](err)
	return ok || errors.As(err, new(reply))
}

// Answered returns err, marked as found in an answer of the BMC: it is not Silent.
func Answered(err error) error { return &answered{err} }

// Disagree returns an error about the contents of an answer.
func Disagree(format string, args ...any) error { return &answered{fmt.Errorf(format, args...)} }

// UnknownAction returns the error for a power action that no driver has.
func UnknownAction(a providers.PowerAction) error {
	return providers.Errorf(providers.Unsupported, "set the power",
		"action %q is not one of on, soft-off, hard-off", text.Clip(string(a), 40))
}
