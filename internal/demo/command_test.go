package demo

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCommandRefuses(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"--machines 0", "set --machines to a number from 1 to 5000, not 0"},
		{"--machines 5001", "set --machines to a number from 1 to 5000, not 5001"},
		{"more", `unknown command "more" for "demo"`},
	} {
		cmd := Command()
		cmd.SetArgs(strings.Fields(tt.args))
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		err := cmd.ExecuteContext(t.Context())
		if err == nil {
			t.Errorf("%s: got no error", tt.args)
			continue
		}
		if diff := cmp.Diff(tt.want, err.Error()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.args, diff)
		}
	}
}
