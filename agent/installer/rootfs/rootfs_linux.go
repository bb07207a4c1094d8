// Package rootfs unpacks a root file system from a tar stream into a directory, with
// owners, modes, times, extended attributes, links and devices.
//
// It touches nothing outside the directory, whatever the archive contains. Every name is
// resolved from the open directory (os.Root, openat), links are followed only inside it,
// and a name with ".." is refused. The package runs nothing. A later entry of the same name
// replaces an earlier one, except that a directory remains a directory.
package rootfs

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/holdfast-metal/holdfast/agent/installer/image"
)

// Stats describes an unpacked archive.
type Stats struct {
	Entries int
	Bytes   int64 // of files
}

// Unpack unpacks an archive into an existing directory, and reads it up to its end mark. An
// invalid archive is an *image.ContentError; any other error is one of the disk.
func Unpack(ctx context.Context, dir string, archive io.Reader) (Stats, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Stats{}, fmt.Errorf("open the root file system: %w", err)
	}
	u := &unpacker{root: root, index: map[string]int{}, buf: make([]byte, 1<<20)}
	err = u.all(ctx, tar.NewReader(archive))
	u.leave()
	return u.stats, errors.Join(err, root.Close())
}

// unpacker is the state of one call of Unpack.
type unpacker struct {
	root  *os.Root
	stats Stats
	dirs  []*tar.Header  // finished last, because writing into a directory changes its time
	index map[string]int // position of a name in dirs
	in    *os.File       // the directory of the last entry
	name  string         // its name
	buf   []byte
}

func (u *unpacker) all(ctx context.Context, r *tar.Reader) error {
	for {
		if err := context.Cause(ctx); err != nil {
			return fmt.Errorf("unpack: %w", err)
		}
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return &image.ContentError{What: fmt.Sprintf("after %d entries", u.stats.Entries), Err: err}
		}
		if err := u.entry(h, r); err != nil {
			return explain(h.Name, err)
		}
		u.stats.Entries++
	}
	for _, h := range slices.Backward(u.dirs) { // inner directories first
		if err := u.finish(h); err != nil {
			return explain(h.Name, err)
		}
	}
	return nil
}

// explain returns the error of an entry: an *image.ContentError, unless the disk refused the entry.
func explain(name string, err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return fmt.Errorf("unpack %q: the root file system is full: the image needs a larger disk: %w", name, err)
	}
	for _, e := range []error{
		unix.EIO, unix.EROFS, unix.EPERM, unix.EACCES, unix.ENOMEM, unix.EOPNOTSUPP, unix.EUCLEAN,
	} {
		if errors.Is(err, e) {
			return fmt.Errorf("unpack %q: %w", name, err)
		}
	}
	if _, ok := errors.AsType[*image.ContentError](err); ok {
		return err
	}
	return &image.ContentError{What: fmt.Sprintf("entry %q", name), Err: err}
}

// local returns a name relative to the root, without a leading slash; "." is the root.
func local(name string) (string, error) {
	if slices.Contains(strings.Split(name, "/"), "..") {
		return "", errors.New("its name leads upwards (..)")
	}
	if name = strings.Trim(path.Clean("/"+name), "/"); name == "" {
		return ".", nil
	}
	return name, nil
}

func (u *unpacker) entry(h *tar.Header, r io.Reader) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	name, err := local(h.Name)
	if err != nil {
		return err
	}
	if h.Uid < 0 || h.Gid < 0 || h.Uid >= 1<<32-1 || h.Gid >= 1<<32-1 {
		return fmt.Errorf("invalid owner %d:%d", h.Uid, h.Gid)
	}
	if h.Typeflag == tar.TypeDir {
		u.remember(name, h)
	}
	if name == "." {
		if h.Typeflag != tar.TypeDir {
			return errors.New("the root is not a directory")
		}
		return nil
	}
	base := path.Base(name)
	at, err := u.enter(path.Dir(name))
	if err != nil {
		return err
	}
	if h.Typeflag == tar.TypeDir {
		return u.mkdir(at, base)
	}
	if err := u.clear(at, base); err != nil {
		return err
	}
	return u.create(at, base, h, r)
}

// remember stores the header of a directory. The last one for a name counts.
func (u *unpacker) remember(name string, h *tar.Header) {
	if i, ok := u.index[name]; ok {
		u.dirs[i] = h
		return
	}
	u.index[name] = len(u.dirs)
	u.dirs = append(u.dirs, h)
}

// create creates any entry but a directory. Nothing exists under its name.
func (u *unpacker) create(at int, base string, h *tar.Header, r io.Reader) error {
	device := int(unix.Mkdev(uint32(h.Devmajor), uint32(h.Devminor)))
	var err error
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeGNUSparse, tar.TypeCont:
		err = u.file(at, base, r)
	case tar.TypeLink:
		return u.link(base, h.Linkname) // it shares everything else with its target
	case tar.TypeSymlink:
		err = unix.Symlinkat(h.Linkname, at, base)
	case tar.TypeChar:
		err = unix.Mknodat(at, base, unix.S_IFCHR|0o600, device)
	case tar.TypeBlock:
		err = unix.Mknodat(at, base, unix.S_IFBLK|0o600, device)
	case tar.TypeFifo:
		err = unix.Mknodat(at, base, unix.S_IFIFO|0o600, 0)
	default:
		return fmt.Errorf("unknown entry type %q", h.Typeflag)
	}
	if err != nil {
		return err
	}
	return describe(at, base, h)
}

// file writes a new file.
func (u *unpacker) file(at int, base string, r io.Reader) error {
	const flags = unix.O_CREAT | unix.O_EXCL | unix.O_WRONLY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(at, base, flags, 0o600)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), base)
	for {
		n, rerr := r.Read(u.buf)
		if _, err := f.Write(u.buf[:n]); err != nil {
			return errors.Join(err, f.Close())
		}
		u.stats.Bytes += int64(n)
		if errors.Is(rerr, io.EOF) {
			return f.Close()
		}
		if rerr != nil {
			_ = f.Close() // the file is incomplete
			return &image.ContentError{What: fmt.Sprintf("in the middle of %q", base), Err: rerr}
		}
	}
}

// link creates a hard link in the entered directory. Its target is resolved from the root
// too.
func (u *unpacker) link(base, to string) error {
	name, err := local(to)
	if err != nil {
		return fmt.Errorf("it is a link to %q: %w", to, err)
	}
	from, err := u.open(path.Dir(name), false)
	if err != nil {
		return fmt.Errorf("it is a link to %q: %w", to, err)
	}
	// A symbolic link is linked, not followed.
	err = unix.Linkat(int(from.Fd()), path.Base(name), int(u.in.Fd()), base, 0)
	if err := errors.Join(err, from.Close()); err != nil {
		return fmt.Errorf("it is a link to %q: %w", to, err)
	}
	return nil
}
