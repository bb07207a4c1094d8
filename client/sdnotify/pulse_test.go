package sdnotify

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestPulse checks the notifications to systemd of a service that works, hangs and stops.
func TestPulse(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	next := func(wait time.Duration) string {
		b := make([]byte, 1000)
		if err := conn.SetReadDeadline(time.Now().Add(wait)); err != nil {
			t.Fatal(err)
		}
		n, _ := conn.Read(b)
		return string(b[:n])
	}
	until := func(want string) {
		t.Helper()
		for deadline := time.Now().Add(10 * time.Second); ; {
			got := next(10 * time.Second)
			if strings.Contains(got, want) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("wait for notification %q: timed out, last %q", want, got)
			}
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	lines, ended := make(chan string), make(chan error, 1)
	p := Pulse{Log: slog.New(slog.DiscardHandler), Line: func() string { return <-lines },
		Notifier: New(func(name string) string {
			return map[string]string{"NOTIFY_SOCKET": socket, "WATCHDOG_USEC": "60000"}[name]
		}, 1)}
	go func() { ended <- p.Run(ctx) }()
	until(Ready)
	lines <- "follower of n2"
	until("WATCHDOG=1\nSTATUS=follower of n2")
	lines <- "follower of n2"
	if got := next(10 * time.Second); got != Watchdog {
		t.Errorf("without a change: got %q, want %q", got, Watchdog)
	}
	// The status call is not answered: the service hangs.
	if got := next(200 * time.Millisecond); got != "" {
		t.Errorf("hanging service: got notification %q, want none", got)
	}
	stop()
	lines <- "leader"
	until(Stopping)
	if err := <-ended; err != nil {
		t.Errorf("run: %v", err)
	}
}
