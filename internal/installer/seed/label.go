package seed

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// A system with SELinux goes by the label of a file, an extended attribute, and the installer's
// kernel, which has no SELinux, gives none: sshd would be kept from its own host key. So what is
// replaced gives its label to what takes its place, and what is new gets the one of its like, or of
// its directory, as a program there would make it. Only the image's own policy knows the right one
// for sure: where it is enforced, the system is told to label itself anew at its first boot.

const (
	labelKey = "security.selinux"
	// relabel makes a system with SELinux label all files at its next boot, and start once more.
	relabel = ".autorelabel"
)

// labels are those of an image, before anything is written.
type labels struct {
	root    *os.Root
	guessed bool // one was, or there was none
}

// of returns the label for a file: "" where the image has none. Like is a pattern of names of files
// that have the same.
func (l *labels) of(name, like string) string {
	if label := labelOf(l.root, name); label != "" {
		return label
	}
	l.guessed = true
	if like != "" {
		all, _ := fs.Glob(l.root.FS(), like) // the pattern is one of ours
		for _, other := range all {
			if label := labelOf(l.root, other); label != "" {
				return label
			}
		}
	}
	for dir := path.Dir(name); ; dir = path.Dir(dir) { // one that is not there yet will be like the one that it is made in
		if label := labelOf(l.root, dir); label != "" || dir == "." {
			return label
		}
	}
}

// mend has the system label itself anew, where a guess could keep it from working.
func (l *labels) mend() error {
	const name = "etc/selinux/config"
	if st, err := l.root.Lstat(name); !l.guessed || err != nil || !st.Mode().IsRegular() {
		return nil
	}
	config, err := l.root.ReadFile(name)
	if err != nil {
		return fmt.Errorf("read /%s: %w", name, err)
	}
	if !enforcing(string(config)) {
		return nil
	}
	if err := write(l.root, file{name: relabel, mode: 0o644}); err != nil {
		return fmt.Errorf("write /%s: %w", relabel, err)
	}
	return nil
}

// labelOf reads the label of a file or a directory. What is no such thing is not opened: a pipe of
// the image would wait for ever. What has none, or is not there, has none.
func labelOf(root *os.Root, name string) string {
	if st, err := root.Lstat(name); err != nil || !st.Mode().IsRegular() && !st.IsDir() {
		return ""
	}
	f, err := root.Open(name)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	b := make([]byte, 4096)
	n, err := unix.Fgetxattr(int(f.Fd()), labelKey, b)
	if err != nil {
		return ""
	}
	return string(b[:n])
}

// setLabel returns a file or a directory a label. A file system that takes none is used without.
func setLabel(f *os.File, label string) error {
	if label == "" {
		return nil
	}
	if err := unix.Fsetxattr(int(f.Fd()), labelKey, []byte(label), 0); err != nil && !errors.Is(err, unix.ENOTSUP) {
		return &fs.PathError{Op: "label", Path: f.Name(), Err: err}
	}
	return nil
}

// enforcing reads etc/selinux/config, as selinux_config(5) has it: the last line counts.
func enforcing(config string) bool {
	mode := ""
	for line := range strings.Lines(config) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && strings.TrimSpace(key) == "SELINUX" {
			mode = strings.TrimSpace(value)
		}
	}
	return strings.EqualFold(mode, "enforcing")
}
