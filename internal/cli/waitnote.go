package cli

import (
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// waitingNote returns the client's warning about a call that is being retried as a sentence, and
// "" for any other record. The warning has the attributes addr, err and until.
func waitingNote(r slog.Record) string {
	found := map[string]slog.Value{}
	r.Attrs(func(attr slog.Attr) bool {
		found[attr.Key] = attr.Value
		return true
	})
	until, ok := found["until"]
	if !ok || until.Kind() != slog.KindTime {
		return ""
	}
	left := until.Time().Sub(r.Time).Round(time.Second)
	why := found["err"].String()
	if strings.HasSuffix(why, "connection refused") || strings.HasSuffix(why, "no such host") {
		why += ": " + connectionHint(why) // the address may be wrong: the remedy should not wait for the last try
	}
	return fmt.Sprintf("note: no answer from %s yet: %s; retrying for %s more (Ctrl-C ends it)", found["addr"], why, left)
}
