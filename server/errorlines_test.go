package server

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"
)

// Clients that fail at the handshake fill no log, and hide no other error.
func TestFailedHandshakesAreLoggedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		w := &errorLines{log: slog.New(slog.NewTextHandler(&out, nil)), seldom: rate.Sometimes{Interval: time.Minute}}
		for range 3 {
			for i := range 1000 {
				_, _ = fmt.Fprintf(w, "http: TLS handshake error from 10.0.0.%d:4711: EOF\n", i%250)
			}
			_, _ = fmt.Fprintln(w, "http: panic serving 10.0.0.1")
			time.Sleep(time.Minute) // sleep: of synctest
		}
		for text, want := range map[string]int{"handshake": 3, "panic": 3} {
			if got := strings.Count(out.String(), text); got != want {
				t.Errorf("lines with %q: got %d, want %d", text, got, want)
			}
		}
	})
}
