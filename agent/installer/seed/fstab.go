package seed

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// Mount is a line of fstab(5).
type Mount struct {
	Source, Dir, Type, Options string
	Pass                       int // of fsck
}

// Fstab writes the fstab of a disk made for a root file system. It drops the image's file
// systems on other disks, because each boot would wait for them. Lines that need no disk
// are kept.
func Fstab(root *os.Root, mounts []Mount) error {
	const name = "etc/fstab"
	old, err := root.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read /%s: %w", name, err)
	}
	text := "# written by the Holdfast installer\n"
	for _, m := range mounts {
		text += fmt.Sprintf("%s %s %s %s 0 %d\n", m.Source, m.Dir, m.Type, m.Options, m.Pass)
	}
	for line := range strings.SplitSeq(string(old), "\n") {
		f := strings.Fields(line)
		if len(f) < 3 || strings.HasPrefix(f[0], "#") || onDisk(f[0], f[2]) ||
			slices.ContainsFunc(mounts, func(m Mount) bool { return m.Dir == f[1] }) {
			continue
		}
		text += line + "\n"
	}
	l := &labels{root: root}
	if err := write(root, file{name: name, text: text, mode: 0o644, label: l.of(name, "")}); err != nil {
		return fmt.Errorf("write /%s: %w", name, err)
	}
	return l.scheduleRelabel()
}

// onDisk reports whether a line of an fstab refers to a disk.
func onDisk(source, kind string) bool {
	for _, p := range []string{"UUID=", "LABEL=", "PARTUUID=", "PARTLABEL=", "ID=", "/dev/"} {
		if strings.HasPrefix(strings.Trim(source, `"`), p) {
			return true
		}
	}
	return kind == "swap" && strings.HasPrefix(source, "/") // a swap file, which tar may have unpacked with holes
}
