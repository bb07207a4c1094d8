package executor

import (
	"maps"
	"strings"
)

// Texts from hosts and BMCs are recorded as valid UTF-8, and truncated so that they fit
// in a log entry. Otherwise a broken device could block its run, or even all runs,
// forever.
const (
	maxValue = 1 << 10  // bytes of a value of the evidence
	maxText  = 16 << 10 // bytes of an error or a message
)

// clean replaces invalid UTF-8, which could not be encoded in a command.
func clean(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// sanitize returns a value of the evidence in its recorded form. A value that is compared
// with a recorded one has to be converted too.
func sanitize(s string) string { return truncate(maxValue, s) }

// truncate returns s as valid UTF-8, truncated to most bytes.
func truncate(most int, s string) string {
	const more = "…"
	if s = clean(s); len(s) > most {
		s = strings.ToValidUTF8(s[:most-len(more)], "") + more
	}
	return s
}

// sanitizeAll returns evidence in its recorded form.
func sanitizeAll(evidence map[string]string) map[string]string {
	out := maps.Clone(evidence)
	for k, v := range out {
		out[k] = sanitize(v)
	}
	return out
}
