package task

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-metal/holdfast/fsm"
)

// Texts from hosts and BMCs are recorded as valid UTF-8, and truncated so that they fit in a log
// entry. Otherwise a broken device could block its run, or even all runs, forever.
const (
	MaxValue = 1 << 10  // bytes of a value of the evidence
	MaxText  = 16 << 10 // bytes of an error or a message
)

// Clean returns s with invalid UTF-8, which could not be encoded in a command, replaced.
func Clean(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// Truncate returns s as valid UTF-8, truncated to most bytes.
func Truncate(most int, s string) string {
	const more = "…"
	if s = Clean(s); len(s) > most {
		s = strings.ToValidUTF8(s[:most-len(more)], "") + more
	}
	return s
}

// Value returns a value of the evidence in its recorded form. A value that is compared with a
// recorded one has to be converted too.
func Value(s string) string { return Truncate(MaxValue, s) }

// Values returns evidence in its recorded form. Beyond the limit of values it keeps the first by
// name, and the number of the others under left_out.
func Values(evidence map[string]string) map[string]string {
	out := maps.Clone(evidence)
	if over := len(out) - fsm.MaxEvidence; over > 0 {
		for _, k := range slices.Sorted(maps.Keys(out))[fsm.MaxEvidence-1:] {
			delete(out, k)
		}
		out["left_out"] = strconv.Itoa(over + 1)
	}
	for k, v := range out {
		out[k] = Value(v)
	}
	return out
}
