package secrets

import (
	"fmt"
	"io"
	"log/slog"
)

// Redacted is shown in place of a value.
const Redacted = "[redacted]"

// Value is a sensitive text. Printed, logged or encoded, it shows Redacted; only Reveal
// returns the text. The zero value is empty. Two Values are equal only if one is a copy of
// the other.
type Value struct{ text *string } // a pointer, because fmt prints struct fields for %p without calling Format

// NewValue returns a Value.
func NewValue(text string) Value { return Value{&text} }

// Reveal returns the text, for the code that uses it. Do not keep it, and never put it into
// an error.
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

// Format writes Redacted for every verb: some of them, such as %d, do not call String.
func (Value) Format(w fmt.State, _ rune) { _, _ = io.WriteString(w, Redacted) }

// LogValue returns Redacted.
func (Value) LogValue() slog.Value { return slog.StringValue(Redacted) }

// MarshalText returns Redacted, including for map keys and XML.
func (Value) MarshalText() ([]byte, error) { return []byte(Redacted), nil }

// MarshalJSON returns Redacted.
func (Value) MarshalJSON() ([]byte, error) { return []byte(`"` + Redacted + `"`), nil }

// MarshalYAML returns Redacted.
func (Value) MarshalYAML() (any, error) { return Redacted, nil }
