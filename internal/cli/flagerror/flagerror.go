// Package flagerror describes an error in the value of a flag, and suggests names. It owns the
// wording, and must not know where the value comes from.
package flagerror

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/pflag"

	"github.com/holdfast-metal/holdfast/internal/nearest"
)

// Value returns the error for a value that a flag does not take, as a sentence without the
// words of package strconv.
func Value(f *pflag.Flag, value string, err error) error {
	switch kind := f.Value.Type(); kind {
	case "int", "float64":
		return fmt.Errorf("%q is not a number", value)
	case "uint32", "uint64":
		return fmt.Errorf("%q is not a number from 0 up", value)
	case "bool":
		return fmt.Errorf("%q is neither true nor false", value)
	case "duration":
		return errors.New(Duration(value))
	}
	return err
}

// Duration returns the reason why a value is no duration: its form, or its length.
func Duration(value string) string {
	if form.MatchString(value) {
		return fmt.Sprintf("%q is longer than the longest time, 2562047h", value)
	}
	return fmt.Sprintf("%q is not a time such as 90s or 1h30m", value)
}

// form matches the texts that time.ParseDuration takes unless their value is too large.
var form = regexp.MustCompile(`^[+-]?(?:[0-9]+(?:\.[0-9]*)?(?:ns|us|µs|ms|s|m|h))+$`)

// invalidError is an error of a command line or a configuration.
type invalidError struct{ err error }

// Invalid returns err with the exit code of an invalid command line or file, 2.
func Invalid(err error) error { return &invalidError{err} }

func (e *invalidError) Error() string { return e.err.Error() }
func (e *invalidError) Unwrap() error { return e.err }

// ExitCode returns the exit code of the command.
func (e *invalidError) ExitCode() int { return 2 }

// Suggest returns the name that a mistyped one was meant to be, as a question, or "".
func Suggest(written string, names []string) string {
	if guess := nearest.Key(strings.ReplaceAll(written, "-", "_"), names); guess != "" {
		return ": did you mean " + guess + "?"
	}
	return ""
}
