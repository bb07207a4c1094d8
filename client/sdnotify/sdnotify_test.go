package sdnotify

import (
	"net"
	"path/filepath"
	"testing"
	"time"
)

func env(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func TestSend(t *testing.T) {
	for _, name := range []string{filepath.Join(t.TempDir(), "notify"), "@holdfast-agent-test"} {
		conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := New(env("NOTIFY_SOCKET", name), 1).Send(Ready, Status("all\nis well")); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 100)
		if err := conn.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
			t.Fatal(err)
		}
		n, err := conn.Read(b)
		if want := "READY=1\nSTATUS=all is well"; err != nil || string(b[:n]) != want {
			t.Errorf("%s: got %q, %v, want %q", name, b[:n], err, want)
		}
	}
}

func TestWithoutSystemd(t *testing.T) {
	if err := New(env(), 1).Send(Ready); err != nil {
		t.Errorf("Send: got %v, want nil", err)
	}
	if err := New(env("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "gone")), 1).Send(Ready); err == nil {
		t.Error("Send to a missing socket: got no error")
	}
}

func TestWatchdog(t *testing.T) {
	tests := []struct {
		env  []string
		want time.Duration
	}{
		{nil, 0},
		{[]string{"WATCHDOG_USEC", "180000000"}, 3 * time.Minute},
		{[]string{"WATCHDOG_USEC", "180000000", "WATCHDOG_PID", "42"}, 3 * time.Minute},
		{[]string{"WATCHDOG_USEC", "180000000", "WATCHDOG_PID", "43"}, 0},
		{[]string{"WATCHDOG_USEC", "0"}, 0},
		{[]string{"WATCHDOG_USEC", "-5"}, 0},
		{[]string{"WATCHDOG_USEC", "soon"}, 0},
	}
	for _, tt := range tests {
		if got := New(env(tt.env...), 42).Watchdog(); got != tt.want {
			t.Errorf("%v: got %v, want %v", tt.env, got, tt.want)
		}
	}
}
