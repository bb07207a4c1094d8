package liblog

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-hclog"
)

func TestLogBridges(t *testing.T) {
	var out bytes.Buffer
	l := slog.New(slog.NewTextHandler(&out,
		&slog.HandlerOptions{Level: slog.LevelInfo, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}))
	h := New(l, "raft")
	h.With("id", 1).Warn("something", "servers", hclog.Fmt("%+v", []int{1, 2}))
	h.Info("detail")
	h.Debug("detail")
	h.Error("bad")
	w := Lines(l)
	for _, line := range []string{"[DEBUG] memberlist: x\n", "[WARN] memberlist: y\n", "[ERR] memberlist: z\n",
		"plain\n"} {
		if n, err := fmt.Fprint(w, line); err != nil || n != len(line) {
			t.Errorf("write %q: %d, %v", line, n, err)
		}
	}
	want := strings.Join([]string{
		`level=WARN msg=something component=raft id=1 servers="[1 2]"`,
		`level=ERROR msg=bad component=raft`,
		`level=WARN msg="memberlist: y"`,
		`level=ERROR msg="memberlist: z"`,
		``,
	}, "\n")
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}
