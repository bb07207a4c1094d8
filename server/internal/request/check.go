package request

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/filter"
)

// MaxComment is the maximum length of a comment or a reason in a request, in bytes.
const MaxComment = 1024

// Required returns an error if a field is empty.
func Required(field, value string) error {
	if value == "" {
		return Invalid(field, "is required")
	}
	return nil
}

// View returns a view for a request that names a resource in a field, or an error if the field is
// empty.
func View[V any](ctx context.Context, view func(context.Context) (V, error), field, value string) (v V, err error) {
	if err := Required(field, value); err != nil {
		return v, err
	}
	return view(ctx)
}

// Comment returns an error if a comment is too long to be kept in the history.
func Comment(field, value string) error {
	if len(value) > MaxComment {
		return Invalid(field, fmt.Sprintf("has %d bytes, at most %d are allowed", len(value), MaxComment))
	}
	return nil
}

// Filter returns the compiled filter of a request.
func Filter(schema func() *filter.Schema, text string) (*filter.Filter, error) {
	f, err := filter.Compile(schema(), text)
	if bad, ok := errors.AsType[*filter.Error](err); ok {
		return nil, Invalid("filter", bad.Error())
	}
	return f, err
}

// CanonicalType returns the canonical name of a type of runs, or another text unchanged.
func CanonicalType(name string) string {
	if c, ok := fsm.CanonicalType(name); ok {
		return c
	}
	return name
}

// Invalid returns the refusal of one field.
func Invalid(field, description string) error {
	return fsm.Invalid([]fsm.FieldViolation{{Field: field, Description: description}})
}

// Violations returns an error for the violations, or nil if there are none.
func Violations(fields []fsm.FieldViolation) error {
	if err := fsm.Invalid(fields); err != nil {
		return err
	}
	return nil // not a nil *fsm.Error
}

// NotFound returns the refusal of a call about a resource that does not exist, or that the
// caller may not see.
func NotFound(reason, kind, id string) error {
	return &fsm.Error{
		Code: fsm.NotFound, Reason: reason, Message: kind + " " + strconv.Quote(id) + " not found",
		Meta: map[string]string{kind + "_id": id},
	}
}
