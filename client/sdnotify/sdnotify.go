// Package sdnotify tells systemd how the service is doing (sd_notify(3)).
//
// It owns the socket and the words of that protocol. Without systemd everything is sent nowhere and
// nothing fails: the service does not depend on who started it. Peers, agents and programs on the
// SDK use it.
package sdnotify

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// The words that are sent.
const (
	Ready    = "READY=1"
	Stopping = "STOPPING=1"
	Watchdog = "WATCHDOG=1"
)

// Status is the line that systemctl status shows.
func Status(text string) string { return "STATUS=" + strings.ReplaceAll(text, "\n", " ") }

// Notifier sends to systemd. Its zero value sends nowhere.
type Notifier struct {
	socket   string
	watchdog time.Duration
}

// New reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID by getenv; pid is that of this process.
func New(getenv func(string) string, pid int) Notifier {
	n := Notifier{socket: getenv("NOTIFY_SOCKET")}
	if p := getenv("WATCHDOG_PID"); p != "" && p != strconv.Itoa(pid) {
		return n
	}
	if usec, err := strconv.ParseInt(getenv("WATCHDOG_USEC"), 10, 40); err == nil && usec > 0 {
		n.watchdog = time.Duration(usec) * time.Microsecond
	}
	return n
}

// Watchdog is the time within which systemd wants to hear Watchdog, zero if it does not.
func (n Notifier) Watchdog() time.Duration { return n.watchdog }

// Send sends words, each on a line of its own.
func (n Notifier) Send(words ...string) error {
	if n.socket == "" {
		return nil
	}
	// Go takes an @ in front for the abstract namespace, as systemd does.
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: n.socket, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("tell systemd: %w", err)
	}
	_, err = conn.Write([]byte(strings.Join(words, "\n")))
	if err = errors.Join(err, conn.Close()); err != nil {
		return fmt.Errorf("tell systemd: %w", err)
	}
	return nil
}
