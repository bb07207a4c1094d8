// Package refusal has the error that commands and queries return when the state does not allow
// them. It must not know any rule.
package refusal

import "fmt"

// Code is the class of a refusal. It has a gRPC code of the same name.
type Code int

// The classes of refusals.
const (
	InvalidArgument Code = iota + 1
	NotFound
	AlreadyExists
	FailedPrecondition
	Aborted // the state has changed since the command was made: retry
	OutOfRange
	// The caller's credentials are unknown or no longer valid.
	Unauthenticated
	// The caller is known and may not do this.
	PermissionDenied
)

// String returns the name of the gRPC code as audit events use it: FAILED_PRECONDITION.
func (c Code) String() string {
	switch c {
	case InvalidArgument:
		return "INVALID_ARGUMENT"
	case NotFound:
		return "NOT_FOUND"
	case AlreadyExists:
		return "ALREADY_EXISTS"
	case FailedPrecondition:
		return "FAILED_PRECONDITION"
	case Aborted:
		return "ABORTED"
	case OutOfRange:
		return "OUT_OF_RANGE"
	case Unauthenticated:
		return "UNAUTHENTICATED"
	case PermissionDenied:
		return "PERMISSION_DENIED"
	}
	return "UNKNOWN"
}

// Error is a refusal: a command or query that the state does not allow. It is the same on
// every peer, and the state is unchanged.
type Error struct {
	Code    Code
	Reason  string // UPPER_SNAKE, stable
	Message string // the problem, the value and the remedy
	Meta    map[string]string
	Fields  []FieldViolation // of an InvalidArgument
	// Shown is the answer to the caller if this refusal names what it may not see. The audit trail
	// has this one. Nil: the refusal itself.
	Shown *Error
}

// FieldViolation describes one invalid field of a request.
type FieldViolation struct {
	Field       string // a path, e.g. machine.spec.mac_addresses[0]
	Description string
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Violations collects the invalid fields of a request.
type Violations struct {
	Prefix string // of their paths, such as "machine."
	Fields []FieldViolation
}

// Add adds the violation of a field.
func (v *Violations) Add(field, format string, args ...any) {
	v.Fields = append(v.Fields, FieldViolation{Field: v.Prefix + field, Description: fmt.Sprintf(format, args...)})
}

// New returns a refusal without fields.
func New(c Code, reason, format string, args ...any) *Error {
	return &Error{Code: c, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// With adds a value to the refusal's metadata, and returns the refusal.
func (e *Error) With(key, value string) *Error {
	if e.Meta == nil {
		e.Meta = map[string]string{}
	}
	e.Meta[key] = value
	return e
}

// Showing sets the answer to a caller that may not see the cause, and returns the refusal.
func (e *Error) Showing(shown *Error) *Error {
	e.Shown = shown
	return e
}

// Answer returns the refusal that the caller may see.
func (e *Error) Answer() *Error {
	if e != nil && e.Shown != nil {
		return e.Shown
	}
	return e
}

// Invalid returns an InvalidArgument error with the violations, or nil if there are none.
func Invalid(fields []FieldViolation) *Error {
	if len(fields) == 0 {
		return nil
	}
	e := New(InvalidArgument, "INVALID_FIELD", "%s: %s", fields[0].Field, fields[0].Description)
	if n := len(fields) - 1; n > 0 {
		e.Message += fmt.Sprintf(" (and %d more)", n)
	}
	e.Fields = fields
	return e
}

// InvalidField returns an InvalidArgument error with one violation.
func InvalidField(field, format string, args ...any) *Error {
	var bad Violations
	bad.Add(field, format, args...)
	return Invalid(bad.Fields)
}
