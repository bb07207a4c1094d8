package secrets

import (
	"fmt"
	"io"
	"log/slog"
)

// Redacted is what is shown in the place of a value.
const Redacted = "[redacted]"

// Value is a text that opens something. However it is printed, logged or encoded, it shows
// Redacted: only Reveal gives it. The zero value is empty. Two are only equal when one is a copy of
// the other.
type Value struct{ text *string } // behind a pointer: fmt prints what it finds in a struct for a verb like %p, and does not ask

// NewValue returns a Value.
func NewValue(text string) Value { return Value{&text} }

// Reveal returns the text, to whom it opens something for. Do not keep it, and never put it into an
// error.
func (v Value) Reveal() string {
	if v.text == nil {
		return ""
	}
	return *v.text
}

// Empty reports whether there is no text.
func (v Value) Empty() bool { return v.Reveal() == "" }

// String returns Redacted.
func (Value) String() string { return Redacted }

// GoString returns Redacted.
func (Value) GoString() string { return Redacted }

// Format writes Redacted for every verb: some of them, such as %d, look past String.
func (Value) Format(w fmt.State, _ rune) { _, _ = io.WriteString(w, Redacted) }

// LogValue returns Redacted.
func (Value) LogValue() slog.Value { return slog.StringValue(Redacted) }

// MarshalText returns Redacted, also as the key of a map and in XML.
func (Value) MarshalText() ([]byte, error) { return []byte(Redacted), nil }

// MarshalJSON returns Redacted.
func (Value) MarshalJSON() ([]byte, error) { return []byte(`"` + Redacted + `"`), nil }

// MarshalYAML returns Redacted.
func (Value) MarshalYAML() (any, error) { return Redacted, nil }
