package rootfs

import (
	"archive/tar"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// xattr is the prefix of extended attributes in a PAX header, as GNU tar, bsdtar and Go
// write them.
const xattr = "SCHILY.xattr."

// enter returns the directory of an entry. It stays open until the next one is entered.
func (u *unpacker) enter(dir string) (int, error) {
	if u.in != nil && u.name == dir {
		return int(u.in.Fd()), nil
	}
	f, err := u.open(dir, true)
	if err != nil {
		return 0, err
	}
	u.leave()
	u.in, u.name = f, dir
	return int(f.Fd()), nil
}

func (u *unpacker) leave() {
	if u.in != nil {
		_ = u.in.Close() // nothing was written to it
		u.in = nil
	}
}

// open opens a directory inside the root, and nothing else: opening a pipe from the archive
// would block forever, and opening a device may have effects. If missing is true, it
// creates a missing directory.
func (u *unpacker) open(dir string, missing bool) (*os.File, error) {
	f, err := u.root.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if missing && errors.Is(err, fs.ErrNotExist) {
		if err := u.root.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
		f, err = u.root.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
	}
	return f, err
}

// mkdir creates a directory, unless there is one.
func (u *unpacker) mkdir(at int, base string) error {
	is, err := isDir(at, base)
	if err != nil || is {
		return err
	}
	if err := u.clear(at, base); err != nil {
		return err
	}
	return unix.Mkdirat(at, base, 0o700)
}

// clear removes an earlier entry of the same name.
func (u *unpacker) clear(at int, base string) error {
	err := unix.Unlinkat(at, base, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if errors.Is(err, unix.EISDIR) {
		return errors.New("it would replace a directory")
	}
	return err
}

func isDir(at int, base string) (bool, error) {
	var st unix.Stat_t
	err := unix.Fstatat(at, base, &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	return st.Mode&unix.S_IFMT == unix.S_IFDIR, err
}

// finish applies the metadata of a directory. If the entry is no longer a directory, a link
// on its path was replaced, and finish leaves it alone.
func (u *unpacker) finish(h *tar.Header) error {
	name, err := local(h.Name)
	if err != nil {
		return err
	}
	if name == "." {
		f, err := u.open(".", false)
		if err != nil {
			return err
		}
		return errors.Join(describe(int(f.Fd()), ".", h), f.Close())
	}
	at, err := u.enter(path.Dir(name))
	if err != nil {
		return err
	}
	if is, err := isDir(at, path.Base(name)); err != nil || !is {
		return err
	}
	return describe(at, path.Base(name), h)
}

// describe sets the metadata. Changing the owner clears set-user-ID and file capabilities,
// so it comes first.
func describe(at int, base string, h *tar.Header) error {
	if err := unix.Fchownat(at, base, h.Uid, h.Gid, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("set its owner: %w", err)
	}
	for _, key := range slices.Sorted(maps.Keys(h.PAXRecords)) {
		name, ok := strings.CutPrefix(key, xattr)
		if !ok {
			continue
		}
		// No system call accepts a directory and a name. The kernel resolves this link to
		// the directory, and Lsetxattr does not follow the last name.
		file := fmt.Sprintf("/proc/self/fd/%d/%s", at, base)
		if err := unix.Lsetxattr(file, name, []byte(h.PAXRecords[key]), 0); err != nil {
			return fmt.Errorf("set its extended attribute %s: %w", name, err)
		}
	}
	if h.Typeflag != tar.TypeSymlink {
		if err := unix.Fchmodat(at, base, uint32(h.Mode&0o7777), 0); err != nil {
			return fmt.Errorf("set its mode: %w", err)
		}
	}
	when := []unix.Timespec{stamp(h.ModTime), stamp(h.ModTime)}
	if err := unix.UtimesNanoAt(at, base, when, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("set its time: %w", err)
	}
	return nil
}

// stamp converts a time for the kernel. The file system clamps times outside its range.
func stamp(t time.Time) unix.Timespec {
	s, err := unix.TimeToTimespec(t)
	if err != nil {
		return unix.Timespec{}
	}
	return s
}
