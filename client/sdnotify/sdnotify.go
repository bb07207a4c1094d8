// Package sdnotify reports the state of a service to systemd (sd_notify(3)).
//
// Without systemd nothing is sent and nothing fails, so a service does not depend on how it
// was started. Peers, agents and programs that use the SDK import it.
package sdnotify

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// Messages of the protocol.
const (
	Ready    = "READY=1"
	Stopping = "STOPPING=1"
	Watchdog = "WATCHDOG=1"
)

// Status returns the message that sets the status line of systemctl status.
func Status(text string) string { return "STATUS=" + strings.ReplaceAll(text, "\n", " ") }

// Notifier sends messages to systemd. Its zero value discards them.
type Notifier struct {
	socket   string
	watchdog time.Duration
}

// New reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID with getenv. The pid is that of
// this process.
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

// Watchdog returns the time within which systemd expects Watchdog, or zero if it does not.
func (n Notifier) Watchdog() time.Duration { return n.watchdog }

// Send sends messages, each on its own line.
func (n Notifier) Send(words ...string) error {
	if n.socket == "" {
		return nil
	}
	// Go maps a leading @ to the abstract namespace, as systemd does.
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: n.socket, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("notify systemd: %w", err)
	}
	_, err = conn.Write([]byte(strings.Join(words, "\n")))
	if err = errors.Join(err, conn.Close()); err != nil {
		return fmt.Errorf("notify systemd: %w", err)
	}
	return nil
}
