package target

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// rootSubvolumes are the subvolumes of Btrfs that distributions install their root in: Fedora's and
// openSUSE's images, and those of Debian and Ubuntu.
func rootSubvolumes() []string { return []string{"root", "@", "@rootfs", "@root", "rootfs"} }

// rootSubvolume returns the path of the subvolume with the root file system, below the top of a
// Btrfs that is mounted at dir (subvolid=5, where subvolumes look like directories). It returns ""
// if there is none, and an error if it cannot decide between several.
func rootSubvolume(dir string) (string, error) {
	for _, name := range rootSubvolumes() {
		if isRoot(filepath.Join(dir, name)) {
			return name, nil
		}
	}
	var found []string
	// openSUSE's root is a snapshot: @/.snapshots/1/snapshot.
	for _, pattern := range []string{"*", "*/*", "@/.snapshots/*/snapshot"} {
		dirs, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return "", err
		}
		for _, d := range dirs {
			name, err := filepath.Rel(dir, d)
			if st, statErr := os.Lstat(d); err == nil && statErr == nil && st.IsDir() && isRoot(d) {
				found = append(found, name)
			}
		}
		if len(found) > 0 {
			break
		}
	}
	slices.Sort(found)
	if len(found) > 1 {
		return "", fmt.Errorf("%d of its subvolumes have a root file system (%s): "+
			"set the default one (btrfs subvolume set-default)", len(found), strings.Join(found, ", "))
	}
	return strings.Join(found, ""), nil
}
