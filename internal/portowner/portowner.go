// Package portowner finds the process that listens on a TCP port, for errors of a listener. It owns
// the reading of /proc, and must not know the addresses of Holdfast.
package portowner

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// tcpListen is the state of a listening socket in /proc/net/tcp.
const tcpListen = "0A"

// Explain adds the process that listens on addr to the error of a listener, if /proc shows it.
func Explain(err error, addr string) error {
	if !errors.Is(err, syscall.EADDRINUSE) && !strings.Contains(err.Error(), syscall.EADDRINUSE.Error()) {
		return err
	}
	owner := "another process"
	if _, port, e := net.SplitHostPort(addr); e == nil {
		if name := find("/proc", port); name != "" {
			owner = name
		}
	}
	return fmt.Errorf("%w: %s listens there: stop it, or set another address", err, owner)
}

// find returns the process that listens on a TCP port, as "NAME (pid N)". It returns "" if
// there is none, or if it belongs to another user and cannot be seen.
func find(proc, port string) string {
	inodes := map[string]bool{}
	for _, file := range []string{"net/tcp", "net/tcp6"} {
		table, _ := os.ReadFile(filepath.Join(proc, file)) // absent on other systems
		for line := range strings.Lines(string(table)) {
			if inode := listener(line, port); inode != "" {
				inodes["socket:["+inode+"]"] = true
			}
		}
	}
	if len(inodes) == 0 {
		return ""
	}
	files, _ := filepath.Glob(filepath.Join(proc, "[0-9]*/fd/*")) // the pattern is valid
	for _, fd := range files {
		if link, err := os.Readlink(fd); err != nil || !inodes[link] {
			continue
		}
		dir := filepath.Dir(filepath.Dir(fd))
		name, err := os.ReadFile(filepath.Join(dir, "comm"))
		if err != nil {
			return ""
		}
		return fmt.Sprintf("%s (pid %s)", strings.TrimSpace(string(name)), filepath.Base(dir))
	}
	return ""
}

// listener returns the inode of the socket in a line of /proc/net/tcp if it listens on port.
func listener(line, port string) string {
	f := strings.Fields(line)
	if len(f) < 10 || f[3] != tcpListen {
		return ""
	}
	_, hex, _ := strings.Cut(f[1], ":")
	n, err := strconv.ParseUint(hex, 16, 16)
	if err != nil || strconv.FormatUint(n, 10) != port {
		return ""
	}
	return f[9]
}
