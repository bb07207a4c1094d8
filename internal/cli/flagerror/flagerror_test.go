package flagerror

import (
	"testing"

	"github.com/spf13/pflag"
)

func TestValue(t *testing.T) {
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	fs.Int("number", 0, "")
	fs.Uint64("count", 0, "")
	fs.Bool("flag", false, "")
	fs.Duration("time", 0, "")
	for name, want := range map[string]string{
		"number": `"x" is not a number`,
		"count":  `"x" is not a number from 0 up`,
		"flag":   `"x" is neither true nor false`,
		"time":   `"x" is not a time such as 90s or 1h30m`,
	} {
		err := fs.Set(name, "x")
		if err == nil {
			t.Fatalf("%s: got no error", name)
		}
		if got := Value(fs.Lookup(name), "x", err).Error(); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

func TestSuggest(t *testing.T) {
	names := []string{"node_id", "join"}
	for written, want := range map[string]string{"node-ids": ": did you mean node_id?", "elephant": ""} {
		if got := Suggest(written, names); got != want {
			t.Errorf("%s: got %q, want %q", written, got, want)
		}
	}
}
