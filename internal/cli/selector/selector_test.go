package selector_test

import (
	"strings"
	"testing"

	"github.com/holdfast-metal/holdfast/internal/cli/selector"
)

func TestFilter(t *testing.T) {
	for _, tt := range []struct{ selector, want string }{
		{"env=prod", `labels."env" = "prod"`},
		{"env == prod", `labels."env" = "prod"`},
		{"env!=prod", `labels."env" != "prod"`},
		{"env=", `labels."env" = ""`},
		{"env", `labels."env":*`},
		{"!env", `NOT labels."env":*`},
		{"env in (a, b)", `(labels."env" = "a" OR labels."env" = "b")`},
		{"env notin (a,b)", `NOT (labels."env" = "a" OR labels."env" = "b")`},
		{"example.com/row=7,!canary", `labels."example.com/row" = "7" AND NOT labels."canary":*`},
		{`a=x"y`, `labels."a" = "x\"y"`},
	} {
		if got, err := selector.Filter(tt.selector); err != nil || got != tt.want {
			t.Errorf("%q: got %s, %v, want %s", tt.selector, got, err, tt.want)
		}
	}
}

func TestInvalid(t *testing.T) {
	for _, s := range []string{"", "a=b,", "=b", "a in b", "a in (b", "a=b=c", "a b", "a (b)", "a>3", "!a=b"} {
		got, err := selector.Filter(s)
		if err == nil || !strings.Contains(err.Error(), "is none of key=value") {
			t.Errorf("%q: got %q, %v, want an error with the syntax", s, got, err)
		}
	}
}
