// Package facts reads the hardware and the utilization of a Linux machine from /proc and
// /sys.
//
// Each parser takes the root of a file system, so that tests can supply their own. A
// machine may have no DMI, GPUs or default route. The package runs no programs, writes
// nothing and knows no servers.
package facts

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
)

// maxFile is larger than any file in /proc or /sys that is read here.
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

// line returns the single line of a file, or "" if the file cannot be read. Device trees
// end their text with a NUL.
func line(fsys fs.FS, name string) string {
	text, err := read(fsys, name)
	if err != nil {
		return ""
	}
	return strings.Trim(text, "\x00 \t\r\n")
}

// Hostname returns the kernel's hostname.
func Hostname(fsys fs.FS) (string, error) {
	if name := line(fsys, "proc/sys/kernel/hostname"); name != "" && name != "(none)" {
		return name, nil
	}
	return "", errors.New("read /proc/sys/kernel/hostname: the machine has no name")
}
