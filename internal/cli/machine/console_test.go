package machine

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEscape(t *testing.T) {
	for _, tt := range []struct {
		name  string
		typed []string // in pieces
		want  string
		leave bool
	}{
		{"at the beginning", []string{"~."}, "", true},
		{"after a line", []string{"ls\r~."}, "ls\r", true},
		{"in pieces", []string{"ls\r", "~", ".", "rest"}, "ls\r", true},
		{"in a line", []string{"a~."}, "a~.", false},
		{"two tildes", []string{"\n~~."}, "\n~.", false},
		{"a home", []string{"\r~/bin\r"}, "\r~/bin\r", false},
		{"control keys", []string{"\x03\x1a"}, "\x03\x1a", false},
	} {
		e, got, leave := escape{start: true}, "", false
		for _, piece := range tt.typed {
			var out []byte
			if out, leave = e.filter([]byte(piece)); leave {
				got += string(out)
				break
			}
			got += string(out)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" || leave != tt.leave {
			t.Errorf("%s: got leave %v, want %v (-want +got):\n%s", tt.name, leave, tt.leave, diff)
		}
	}
}
