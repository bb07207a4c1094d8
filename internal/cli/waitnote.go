package cli

import (
	"fmt"
	"log/slog"
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
	return fmt.Sprintf("note: no answer from %s yet: %s; retrying for %s more (Ctrl-C ends it)",
		found["addr"], found["err"], left)
}
