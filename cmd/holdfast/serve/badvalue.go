package serve

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/holdfast-metal/holdfast/internal/nearest"
)

// badValue returns the error for a value that a flag does not take, as a sentence without the
// words of package strconv.
func badValue(f *pflag.Flag, value string, err error) error {
	switch kind := f.Value.Type(); kind {
	case "int", "float64":
		return fmt.Errorf("%q is not a number", value)
	case "uint32", "uint64":
		return fmt.Errorf("%q is not a number from 0 up", value)
	case "bool":
		return fmt.Errorf("%q is neither true nor false", value)
	case "duration":
		return fmt.Errorf("%q is not a time such as 90s or 1h30m", value)
	}
	return err
}

// unknownKey returns the error for a key that no flag has, with a suggestion.
func unknownKey(fs *pflag.FlagSet, key string) error {
	if key == "current" || key == "contexts" {
		return fmt.Errorf("unknown key %q: it is a file of contexts: HOLDFAST_CONFIG is the configuration of the peer; "+
			"set HOLDFAST_CONTEXTS for the contexts of the client", key)
	}
	return fmt.Errorf("unknown key %q%s", key, suggest(key, append(below(fs, ""), "providers", "oidc_issuers", "archive")))
}

// below returns the keys whose flags have a prefix, without it.
func below(fs *pflag.FlagSet, prefix string) []string {
	var names []string
	fs.VisitAll(func(f *pflag.Flag) {
		if name, ok := strings.CutPrefix(f.Name, prefix); ok {
			names = append(names, strings.ReplaceAll(name, "-", "_"))
		}
	})
	return names
}

// suggest returns the name that a mistyped one was meant to be, as a question, or "".
func suggest(written string, names []string) string {
	if guess := nearest.Of(strings.ReplaceAll(written, "-", "_"), names); guess != "" {
		return ": did you mean " + guess + "?"
	}
	return ""
}
