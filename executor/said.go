package executor

import (
	"maps"
	"strings"
)

// What hosts and BMCs say of themselves comes on record: as text that can be encoded, and not more
// of it than an entry of the log has room for. One that says something else must not hold its run
// for ever, and less so all others.
const (
	maxSaid  = 1 << 10  // bytes of a value of the evidence
	maxWords = 16 << 10 // bytes of an error or a message
)

// clean keeps what hardware says from breaking the encoding of the record.
func clean(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// said is a value of the evidence as it is recorded. What is compared with one that was recorded
// before has to go through it too.
func said(s string) string { return upTo(maxSaid, s) }

// upTo returns a clean text of so many bytes at most.
func upTo(most int, s string) string {
	const more = "…"
	if s = clean(s); len(s) > most {
		s = strings.ToValidUTF8(s[:most-len(more)], "") + more
	}
	return s
}

// saidAll is evidence as it is recorded.
func saidAll(evidence map[string]string) map[string]string {
	out := maps.Clone(evidence)
	for k, v := range out {
		out[k] = said(v)
	}
	return out
}
