package liblog

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// An unreachable peer causes one line, and then one every half minute, however often Raft tries. A
// second peer causes its own lines.
func TestRepeatedTroubleIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := New(slog.New(slog.NewTextHandler(&out, nil)), "raft")
		began := time.Now()
		for time.Since(began) < time.Minute+time.Second {
			for _, peer := range []raft.Server{{ID: "p2"}, {ID: "p3"}} {
				l.Error("failed to heartbeat to", "peer", peer.ID, "backoff time", time.Since(began))
			}
			l.Info("information")
			time.Sleep(300 * time.Millisecond) // sleep: of synctest
		}
		got := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(got) != 6 {
			t.Errorf("got %d lines, want three about each peer\n%s", len(got), out.String())
		}
		for i, held := range []string{"", "like_it_before=99", "like_it_before=99"} {
			for j, peer := range []string{"p2", "p3"} {
				if line := got[2*i+j]; !strings.Contains(line, "peer="+peer) || !strings.Contains(line, held) {
					t.Errorf("line %d: got %q, want one about %s with %q", 2*i+j, line, peer, held)
				}
			}
		}
	})
}

func TestRepeatsAreBounded(t *testing.T) {
	var r logDedup
	for i := range 10 * dedupLimit {
		if l, _ := r.check(slog.LevelError, fmt.Sprint(i), time.Unix(0, 0)); l != slog.LevelError {
			t.Fatalf("line %d: got level %s, want %s", i, l, slog.LevelError)
		}
	}
	if got := len(r.seen); got > dedupLimit {
		t.Errorf("remembered lines: got %d, want at most %d", got, dedupLimit)
	}
}

// Junk on the port of gossip fills no disk.
func TestLinesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		w := Lines(slog.New(slog.NewTextHandler(&out, nil)))
		for range 2 {
			for i := range 20_000 {
				_, _ = fmt.Fprintf(w, "[ERR] memberlist: junk from 10.0.0.%d", i%250)
			}
			time.Sleep(lineWindow) // sleep: of synctest
		}
		if got, want := strings.Count(out.String(), "\n"), 2*lineBurst+1; got != want {
			t.Errorf("lines: got %d, want %d", got, want)
		}
		if !strings.Contains(out.String(), "lines=19980") {
			t.Error("got no count of the suppressed lines")
		}
	})
}
