package providers

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Class classifies an error of a provider. It decides how the executor handles the error.
type Class string

// The classes of errors (docs/concepts.md).
const (
	Transient   Class = "transient"   // may succeed next time
	Auth        Class = "auth"        // credentials refused: stop before the account is locked
	Unsupported Class = "unsupported" // can never succeed
	Gone        Class = "gone"        // the machine or its BMC no longer exists
	Timeout     Class = "timeout"     // no answer in time: the outcome is unknown
	Failed      Class = "failed"      // accepted, then observed to fail; it has ended, and a retry may help
	Late        Class = "late"        // not-after time passed: not sent, or refused by the hardware
)

// Reason returns the reason of a condition after an error of this class, or otherwise if the class
// does not imply one.
func (c Class) Reason(otherwise string) string {
	switch c {
	case Auth:
		return "AuthFailed"
	case Timeout:
		return "Timeout"
	case Unsupported:
		return "Unsupported"
	case Gone:
		return "Gone"
	}
	return otherwise
}

// Error is an error of a provider with its class.
type Error struct {
	Class Class
	Op    string // what was attempted, e.g. "set power of m-1 to off"
	Err   error
}

// Error returns the operation and its cause. It is shown to operators, so it does not have Go's
// words for a deadline.
func (e *Error) Error() string {
	text := fmt.Sprintf("%s: %v", e.Op, e.Err)
	return noAnswer.Replace(text)
}

var noAnswer = strings.NewReplacer("no answer: "+context.DeadlineExceeded.Error(), "no answer in time",
	context.DeadlineExceeded.Error(), "no answer in time")

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Errorf returns an error of class c.
func Errorf(c Class, op, format string, args ...any) error {
	return &Error{Class: c, Op: op, Err: fmt.Errorf(format, args...)}
}

// ClassOf returns the class of an error: that of the provider's Error, Timeout for an exceeded
// deadline, and Transient for everything else.
func ClassOf(err error) Class {
	var e *Error
	switch {
	case errors.As(err, &e):
		return e.Class
	case errors.Is(err, context.DeadlineExceeded):
		return Timeout
	}
	return Transient
}
