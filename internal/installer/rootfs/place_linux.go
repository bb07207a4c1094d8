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

// xattr is what keys of extended attributes begin with in a PAX header, as GNU tar, bsdtar and Go
// write them.
const xattr = "SCHILY.xattr."

// enter returns the directory that an entry is to be in, open until the next one is entered.
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

// open opens a directory inside the root, and nothing else: a pipe of the archive would wait for
// ever, a device do something. One that has no entry of its own is made where it may be missing.
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

// mkdir makes a directory, unless there is one.
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

// clear removes what an earlier entry has put there.
func (u *unpacker) clear(at int, base string) error {
	err := unix.Unlinkat(at, base, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if errors.Is(err, unix.EISDIR) {
		return errors.New("it takes the place of a directory")
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

// finish returns a directory what its entry says. It may be another thing by now only when it was a
// link on the way that was replaced: then it is left alone.
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

// describe sets what is not contents. A change of owner takes set-user-ID and file capabilities
// away: so it comes first.
func describe(at int, base string, h *tar.Header) error {
	if err := unix.Fchownat(at, base, h.Uid, h.Gid, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("set its owner: %w", err)
	}
	for _, key := range slices.Sorted(maps.Keys(h.PAXRecords)) {
		name, ok := strings.CutPrefix(key, xattr)
		if !ok {
			continue
		}
		// No call takes a directory and a name. This one is of ours; what it has below that name is
		// not followed.
		if err := unix.Lsetxattr(fmt.Sprintf("/proc/self/fd/%d/%s", at, base), name, []byte(h.PAXRecords[key]), 0); err != nil {
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

// stamp is a time as the kernel has it. One that is far out is taken for the nearest that it knows
// by the file system.
func stamp(t time.Time) unix.Timespec {
	s, err := unix.TimeToTimespec(t)
	if err != nil {
		return unix.Timespec{}
	}
	return s
}
