package cli

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/pflag"
)

// parsing matches Go's errors for a text that is not a number or a time.
var parsing = regexp.MustCompile(`^(?:strconv\.Parse\w+: parsing "[^"]*": |time: )(.*)$`)

// flagTrouble returns the error of a flag as text: name, value, cause.
func flagTrouble(err error) string {
	invalid := (*pflag.InvalidValueError)(nil)
	if !errors.As(err, &invalid) {
		return err.Error()
	}
	name, value, why := "--"+invalid.GetFlag().Name, invalid.GetValue(), invalid.Unwrap().Error()
	m := parsing.FindStringSubmatch(why)
	switch {
	case m == nil && strings.HasPrefix(why, fmt.Sprintf("%q ", value)):
		return name + ": " + why // it names the value
	case m == nil:
		return fmt.Sprintf("%s: %q: %s", name, value, why)
	case strings.Contains(m[1], "out of range"):
		return fmt.Sprintf("%s: %q is out of range", name, value)
	case strings.Contains(invalid.GetFlag().Value.Type(), "uration"):
		return fmt.Sprintf("%s: %q is no time such as 90s or 1h30m", name, value)
	case strings.Contains(invalid.GetFlag().Value.Type(), "uint"):
		return fmt.Sprintf("%s: %q is no number from 0 up", name, value)
	case invalid.GetFlag().Value.Type() == "bool":
		return fmt.Sprintf("%s: %q is neither true nor false", name, value)
	}
	return fmt.Sprintf("%s: %q is no number", name, value)
}
