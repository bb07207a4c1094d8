package providers

import (
	"context"
	"errors"
	"fmt"
)

// Class says what kind of error a provider met, and so what the executor may do about it.
type Class string

// The classes of errors (docs/concepts.md).
const (
	Transient   Class = "transient"   // may work next time
	Auth        Class = "auth"        // credentials refused: stop soon, before the account is locked
	Unsupported Class = "unsupported" // will never work
	Gone        Class = "gone"        // the machine or its BMC does not exist any more
	Timeout     Class = "timeout"     // no answer in time: the outcome is not known
	Failed      Class = "failed"      // what was accepted was seen to fail: nothing more comes of it, to try it again may help
	Late        Class = "late"        // its not-after time had passed: nothing was sent, or the hardware refused it. Nothing was done
)

// Error is an error of a provider, classed.
type Error struct {
	Class Class
	Op    string // what was tried, e.g. "set power of m-1 to off"
	Err   error
}

// Error reports what was tried and what went wrong.
func (e *Error) Error() string { return fmt.Sprintf("%s: %v", e.Op, e.Err) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Errorf makes a classed error.
func Errorf(c Class, op, format string, args ...any) error {
	return &Error{Class: c, Op: op, Err: fmt.Errorf(format, args...)}
}

// ClassOf returns the class of an error: what a provider said, Timeout for deadlines, and
// Transient for everything else.
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
