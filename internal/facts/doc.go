// Package facts finds out what a Linux machine has and how busy it is, from /proc and /sys.
//
// It owns the parsers of these files. Each takes the root of a file system, so that tests bring
// their own, and says what it found or that it found nothing: a machine without DMI, GPUs or a
// default route is a machine all the same. It runs no programs, writes nothing and knows nothing of
// servers.
package facts

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
)

// maxFile is more than any file of /proc or /sys that is read here.
const maxFile = 4 << 20

// read returns the text of a file.
func read(fsys fs.FS, name string) (string, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err = errors.Join(err, f.Close()); err != nil {
		return "", fmt.Errorf("read /%s: %w", name, err)
	}
	return string(b), nil
}

// line returns the one line of a file, "" if it cannot be read. Device trees end their text with
// a NUL.
func line(fsys fs.FS, name string) string {
	text, err := read(fsys, name)
	if err != nil {
		return ""
	}
	return strings.Trim(text, "\x00 \t\r\n")
}

// Hostname is the name that the kernel has for the machine.
func Hostname(fsys fs.FS) (string, error) {
	if name := line(fsys, "proc/sys/kernel/hostname"); name != "" && name != "(none)" {
		return name, nil
	}
	return "", errors.New("read /proc/sys/kernel/hostname: the machine has no name")
}
