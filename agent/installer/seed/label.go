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

// SELinux checks the label of a file, an extended attribute. The installer's kernel has no
// SELinux and sets none, so sshd could not read its own host key. So a replaced file passes
// its label on. A new file gets the label of a similar one, or of its directory, as if a
// program there had created it. Only the image's own policy knows the right label. If that
// is enforced and a label was guessed, the system relabels itself at its first boot.

const (
	labelKey = "security.selinux"
	// relabel makes a system with SELinux label all files at its next boot, and restart.
	relabel = ".autorelabel"
)

// labels are the labels of an image, before anything is written.
type labels struct {
	root    *os.Root
	guessed bool // a label was guessed, or there was none
}

// of returns the label for a file, or "" if the image has none. The pattern like matches
// files with the same label.
func (l *labels) of(name, like string) string {
	if label := labelOf(l.root, name); label != "" {
		return label
	}
	l.guessed = true
	if like != "" {
		all, _ := fs.Glob(l.root.FS(), like) // the pattern is valid
		for _, other := range all {
			if label := labelOf(l.root, other); label != "" {
				return label
			}
		}
	}
	for dir := path.Dir(name); ; dir = path.Dir(dir) { // a missing directory gets the label of its parent
		if label := labelOf(l.root, dir); label != "" || dir == "." {
			return label
		}
	}
}

// scheduleRelabel makes the system relabel itself if a guessed label could break it.
func (l *labels) scheduleRelabel() error {
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

// labelOf returns the label of a file or directory, or "" if there is none. It opens
// nothing else: a pipe in the image would block forever.
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

// setLabel sets the label of a file or directory. File systems without labels are ignored.
func setLabel(f *os.File, label string) error {
	if label == "" {
		return nil
	}
	if err := unix.Fsetxattr(int(f.Fd()), labelKey, []byte(label), 0); err != nil && !errors.Is(err, unix.ENOTSUP) {
		return &fs.PathError{Op: "label", Path: f.Name(), Err: err}
	}
	return nil
}

// enforcing reports whether etc/selinux/config enforces the policy. As in
// selinux_config(5), the last line counts.
func enforcing(config string) bool {
	mode := ""
	for line := range strings.Lines(config) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && strings.TrimSpace(key) == "SELINUX" {
			mode = strings.TrimSpace(value)
		}
	}
	return strings.EqualFold(mode, "enforcing")
}
