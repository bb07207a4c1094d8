package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/internal/cli/flagerror"
	"github.com/holdfast-metal/holdfast/internal/cli/manifest"
	"github.com/holdfast-metal/holdfast/internal/nearest"
)

// Exit codes. Scripts rely on them: the help lists them, and they do not change.
const (
	ExitOK          = 0
	ExitError       = 1
	ExitUsage       = 2
	ExitNotFound    = 3
	ExitConflict    = 4
	ExitRunFailed   = 5
	ExitTimeout     = 6
	ExitUnavailable = 7
)

// ExitCodeHelp is the part of the help that lists the exit codes.
const ExitCodeHelp = `Exit codes:
  0  ok
  1  error
  2  the command line, or a value in it or in a file, is invalid
  3  not found
  4  conflict: it exists already, or the state does not allow it
  5  the run failed or was canceled (--wait, run wait, run watch RUN)
  6  time is up
  7  no leader, or no peer answers`

// UsageError is a command line that is wrong in any state of the cluster.
type UsageError struct{ msg string }

// Error implements error.
func (e *UsageError) Error() string { return e.msg }

// Usagef returns a *UsageError.
func Usagef(format string, args ...any) error { return &UsageError{fmt.Sprintf(format, args...)} }

// ExitCode returns the exit code for the error of a command. An error with a method ExitCode()
// int decides itself.
func ExitCode(err error) int {
	if err == nil {
		return ExitOK
	}
	var coded interface{ ExitCode() int }
	if errors.As(err, &coded) {
		return coded.ExitCode()
	}
	if _, ok := errors.AsType[*UsageError](err); ok {
		return ExitUsage
	}
	if _, ok := errors.AsType[*manifest.Error](err); ok {
		return ExitUsage
	}
	if s, ok := status.FromError(err); ok {
		return codeExit(s.Code())
	}
	switch path := (*fs.PathError)(nil); {
	case errors.Is(err, context.DeadlineExceeded):
		return ExitTimeout
	case errors.As(err, &path) && errors.Is(err, fs.ErrNotExist):
		return ExitUsage // a file or directory that the command line names
	}
	return ExitError
}

func codeExit(c codes.Code) int {
	switch c {
	case codes.NotFound:
		return ExitNotFound
	case codes.AlreadyExists, codes.FailedPrecondition, codes.Aborted:
		return ExitConflict
	case codes.DeadlineExceeded:
		return ExitTimeout
	case codes.Unavailable:
		return ExitUnavailable
	case codes.InvalidArgument:
		return ExitUsage
	}
	return ExitError
}

// codeError is an error with an exit code of its own.
type codeError struct {
	code int
	msg  string
}

func (e *codeError) Error() string { return e.msg }

// ExitCode implements the interface that the function ExitCode checks for in errors of any
// package.
func (e *codeError) ExitCode() int { return e.code }

// Exitf returns an error with an exit code of its own. Without a message it is not printed.
func Exitf(code int, format string, args ...any) error {
	return &codeError{code, fmt.Sprintf(format, args...)}
}

// parsing matches Go's errors for a text that is not a number or a time.
var parsing = regexp.MustCompile(`^(?:strconv\.Parse\w+: parsing "[^"]*": |time: )(.*)$`)

// shorthand matches pflag's errors for a flag of one letter: unknown, or without its value.
var shorthand = regexp.MustCompile(`^(unknown shorthand flag|)(?:flag needs an argument|): '(.)' in -`)

// likelyFlag returns the flag that an unknown one was meant to be, as a question, or "".
func likelyFlag(cmd *cobra.Command, err error) string {
	written, unknown := strings.CutPrefix(err.Error(), "unknown flag: --")
	if !unknown {
		return ""
	}
	written, _, _ = strings.Cut(written, "=")
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	for _, like := range append(strings.Fields(sameFlags()[written]), nearest.Key(written, names)) {
		if like != "" && slices.Contains(names, like) {
			return ": did you mean --" + like + "?"
		}
	}
	if slices.Contains([]string{"all", "all-namespaces", "A"}, written) && cmd.Flags().Lookup("limit") != nil {
		return ": all are listed without it"
	}
	return ""
}

// sameFlags returns the flags that may be meant by a name which other tools have for the same.
func sameFlags() map[string]string {
	return map[string]string{"password": "from-file", "from-literal": "from-file", "file": "from-file file disk",
		"path": "file disk", "url": "url disk", "name": "name", "force": "yes force", "confirm": "yes", "assume-yes": "yes",
		"query": "filter selector", "where": "filter selector", "machine": "selector filter", "label": "labels selector",
		"format": "output", "json": "output", "sort": "sort-by", "server": "addr", "host": "addr", "endpoint": "addr",
		"cacert": "ca", "insecure": "addr", "parallel": "max-parallel", "parameter": "param", "set": "param",
		"follow": "watch"}
}

// shorthands returns the flags of one letter.
func shorthands(cmd *cobra.Command) []string {
	var all []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Shorthand != "" && !f.Hidden {
			all = append(all, fmt.Sprintf("-%s (--%s)", f.Shorthand, f.Name))
		}
	})
	return all
}

// FlagTrouble returns the error of a flag as text: name, value, cause.
func FlagTrouble(cmd *cobra.Command, err error) string {
	invalid := (*pflag.InvalidValueError)(nil)
	if !errors.As(err, &invalid) {
		if m := shorthand.FindStringSubmatch(err.Error()); m != nil {
			if m[1] == "" {
				return "-" + m[2] + " needs a value"
			}
			return "unknown flag: -" + m[2] + ": short flags are " + strings.Join(shorthands(cmd), ", ")
		}
		return err.Error() + likelyFlag(cmd, err)
	}
	name, value, why := "--"+typedName(invalid.GetFlag()), invalid.GetValue(), invalid.Unwrap().Error()
	m := parsing.FindStringSubmatch(why)
	switch {
	case m == nil && strings.HasPrefix(why, fmt.Sprintf("%q ", value)):
		return name + ": " + why // it names the value
	case m == nil:
		return fmt.Sprintf("%s: %q: %s", name, value, why)
	case strings.Contains(m[1], "out of range"):
		return fmt.Sprintf("%s: %q is out of range", name, value)
	case strings.Contains(invalid.GetFlag().Value.Type(), "uration"):
		return name + ": " + flagerror.Duration(value)
	case strings.Contains(invalid.GetFlag().Value.Type(), "uint"):
		return fmt.Sprintf("%s: %q is not a number from 0 up", name, value)
	case invalid.GetFlag().Value.Type() == "bool":
		return fmt.Sprintf("%s: %q is neither true nor false", name, value)
	}
	return fmt.Sprintf("%s: %q is not a number", name, value)
}
