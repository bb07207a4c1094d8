package rootfs

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/holdfast-metal/holdfast/agent/installer/image"
)

// when is the default time of entries.
const when = 1700000000

// entry is a header, its file's contents, and extended attributes.
type entry struct {
	h     tar.Header
	text  string
	xattr map[string]string
}

func file(name, text string) entry { return entry{h: tar.Header{Name: name, Mode: 0o644}, text: text} }
func dir(name string, mode int64) entry {
	return entry{h: tar.Header{Name: name, Typeflag: tar.TypeDir, Mode: mode}}
}
func link(name, to string, kind byte) entry {
	return entry{h: tar.Header{Name: name, Linkname: to, Typeflag: kind, Mode: 0o777}}
}

// pack returns an archive. By default, entries belong to the user of the test.
func pack(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := e.h
		h.Size, h.Format = int64(len(e.text)), tar.FormatPAX
		if h.ModTime.IsZero() {
			h.ModTime = time.Unix(when, 0)
		}
		if h.Uid == 0 && h.Gid == 0 {
			h.Uid, h.Gid = os.Geteuid(), os.Getegid()
		}
		for k, v := range e.xattr {
			if h.PAXRecords == nil {
				h.PAXRecords = map[string]string{}
			}
			h.PAXRecords[xattr+k] = v
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(e.text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// tree returns the contents of a directory: kind, mode, links, and contents of files. Times are
// included if they are not the default.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		st, err := d.Info()
		if err != nil {
			return err
		}
		text := st.Mode().String()
		switch {
		case st.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink(path)
			if err != nil {
				return err
			}
			text += " " + to
		case st.Mode().IsRegular():
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text += " " + string(b)
		}
		if st.ModTime().Unix() != when {
			text += " of another time"
		}
		all[name] = text
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestUnpack(t *testing.T) {
	old := dir("./etc", 0o755)
	suid := file("./usr/bin/su", "program")
	suid.h.Mode = 0o4755
	tests := []struct {
		name    string
		entries []entry
		want    map[string]string
	}{
		{"a root", []entry{dir("./", 0o755), old, file("./etc/passwd", "root"), dir("./usr/", 0o555),
			dir("./usr/bin", 0o1777), suid,
			link("./bin", "usr/bin", tar.TypeSymlink), link("./etc/shadow", "./etc/passwd", tar.TypeLink), link("./vmlinuz",
				"/boot/vmlinuz", tar.TypeSymlink)},
			map[string]string{".": "drwxr-xr-x", "etc": "drwxr-xr-x", "etc/passwd": "-rw-r--r-- root",
				"etc/shadow": "-rw-r--r-- root", "usr": "dr-xr-xr-x", "usr/bin": "dtrwxrwxrwx",
				"usr/bin/su": "urwxr-xr-x program", "bin": "Lrwxrwxrwx usr/bin", "vmlinuz": "Lrwxrwxrwx /boot/vmlinuz"}},
		{"names from the root on", []entry{dir("/", 0o755), dir("/a", 0o700), file("/a/b", "1")},
			map[string]string{".": "drwxr-xr-x", "a": "drwx------", "a/b": "-rw-r--r-- 1"}},
		{"through a link inside", []entry{dir("./", 0o755), dir("usr", 0o755), dir("usr/lib", 0o755),
			link("lib", "usr/lib", tar.TypeSymlink), file("lib/a", "1"), dir("usr/lib", 0o755)},
			map[string]string{".": "drwxr-xr-x", "usr": "drwxr-xr-x", "usr/lib": "drwxr-xr-x", "usr/lib/a": "-rw-r--r-- 1",
				"lib": "Lrwxrwxrwx usr/lib"}},
		{"later entry wins", []entry{dir("./", 0o755), file("a", "1"), link("a", "b", tar.TypeSymlink), file("a", "2"),
			link("d", "e", tar.TypeSymlink), dir("d", 0o755), dir("d", 0o700)},
			map[string]string{".": "drwxr-xr-x", "a": "-rw-r--r-- 2", "d": "drwx------"}},
		{"a link to a link, and a pipe", []entry{dir("./", 0o755), link("a", "nowhere", tar.TypeSymlink),
			link("b", "a", tar.TypeLink), {h: tar.Header{Name: "p", Typeflag: tar.TypeFifo, Mode: 0o620}}},
			map[string]string{".": "drwxr-xr-x", "a": "Lrwxrwxrwx nowhere", "b": "Lrwxrwxrwx nowhere", "p": "prw--w----"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			at := t.TempDir()
			stats, err := Unpack(t.Context(), at, bytes.NewReader(pack(t, tt.entries...)))
			if err != nil || stats.Entries != len(tt.entries) {
				t.Fatalf("got %+v, %v, want %d entries", stats, err, len(tt.entries))
			}
			if diff := cmp.Diff(tt.want, tree(t, at)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A directory without an entry is created.
func TestUnpackMakesDirectories(t *testing.T) {
	at := t.TempDir()
	if _, err := Unpack(t.Context(), at, bytes.NewReader(pack(t, file("a/b/c", "1")))); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(at, "a/b/c")); err != nil || string(b) != "1" {
		t.Errorf("a/b/c: %q, %v", b, err)
	}
}

// Nothing outside is changed, and the entry that tries it is named in the error.
func TestUnpackStaysInside(t *testing.T) {
	tests := []struct {
		name    string
		entries []entry
		want    string
	}{
		{"upwards", []entry{file("../new", "1")}, `entry "../new": its name leads upwards (..)`},
		{"upwards in the middle", []entry{file("a/../../new", "1")}, "leads upwards"},
		{"an absolute name upwards", []entry{file("/../new", "1")}, "leads upwards"},
		{"a link to the outside, and a file in it", []entry{link("a", "..", tar.TypeSymlink), file("a/new", "1")},
			`entry "a/new": `},
		{"an absolute link, and a file in it", []entry{link("a", "OUTSIDE", tar.TypeSymlink), file("a/new", "1")},
			`entry "a/new": `},
		{"an absolute link, and a directory in it", []entry{link("a", "OUTSIDE", tar.TypeSymlink), dir("a/new", 0o755)},
			`entry "a/new": `},
		{"a hard link to the outside", []entry{link("a", "../secret", tar.TypeLink)},
			`entry "a": it is a link to "../secret": its name leads upwards (..)`},
		{"a hard link through a link", []entry{link("a", "OUTSIDE", tar.TypeSymlink), link("b", "a/secret", tar.TypeLink)},
			`entry "b": it is a link to "a/secret"`},
		{"a chain of links", []entry{dir("d", 0o755), link("d/a", "..", tar.TypeSymlink),
			link("b", "d/a/..", tar.TypeSymlink), file("b/new", "1")}, `entry "b/new": `},
		{"device as a directory", []entry{{h: tar.Header{Name: "p", Typeflag: tar.TypeFifo, Mode: 0o600}},
			file("p/new", "1")}, `entry "p/new": `},
		{"a directory that turns into a file", []entry{dir("a", 0o755), file("a", "1")}, "would replace a directory"},
		{"the root as a file", []entry{file("./.", "1")}, "the root is not a directory"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			outside := t.TempDir()
			if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("s"), 0o600); err != nil {
				t.Fatal(err)
			}
			at := filepath.Join(outside, "root")
			if err := os.Mkdir(at, 0o755); err != nil {
				t.Fatal(err)
			}
			for i := range tt.entries {
				tt.entries[i].h.Linkname = strings.ReplaceAll(tt.entries[i].h.Linkname, "OUTSIDE", outside)
			}
			_, err := Unpack(t.Context(), at, bytes.NewReader(pack(t, tt.entries...)))
			content := (*image.ContentError)(nil)
			if !errors.As(err, &content) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want a content error with %q", err, tt.want)
			}
			untouched(t, outside)
		})
	}
}

// untouched checks the files outside of the root.
func untouched(t testing.TB, outside string) {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(filepath.Join(outside, "secret"), &st); err != nil || st.Nlink != 1 || st.Mode&0o777 != 0o600 {
		t.Errorf("file outside: got %d links, mode %o, %v", st.Nlink, st.Mode, err)
	}
	all, err := os.ReadDir(outside)
	if err != nil || fmt.Sprint(all) != "[d root/ - secret]" {
		t.Errorf("files beside the root: got %v, %v", all, err)
	}
}

func TestUnpackBroken(t *testing.T) {
	whole := pack(t, file("a", strings.Repeat("1", 5000)), file("b", "2"))
	tests := []struct {
		name string
		b    []byte
		want string
	}{
		{"cut in a file", whole[:3000], `in the middle of "a"`},
		{"cut in a header", whole[:512+5120+100], "after 1 entries"},
		{"no archive", bytes.Repeat([]byte("x"), 2048), "after 0 entries"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Unpack(t.Context(), t.TempDir(), bytes.NewReader(tt.b))
			content := (*image.ContentError)(nil)
			if !errors.As(err, &content) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// Only root can set owners, devices and system attributes.
func TestUnpackAsRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("NOT TESTED: only root may change owners")
	}
	at := t.TempDir()
	if err := unix.Setxattr(at, "trusted.probe", []byte("1"), 0); err != nil {
		t.Skipf("NOT TESTED: this file system or container has no attributes: %v", err)
	}
	owned := file("a", "1")
	owned.h.Uid, owned.h.Gid, owned.h.Mode = 1234, 70000, 0o6711
	owned.xattr = map[string]string{"trusted.a": "v\x00w"}
	under := link("l", "a", tar.TypeSymlink)
	under.h.Uid, under.h.Gid = 5, 6
	under.xattr = map[string]string{"trusted.l": "of the link"}
	inside := dir("d", 0o2750)
	inside.h.Uid, inside.h.Gid, inside.xattr = 7, 8, map[string]string{"trusted.d": "1"}
	if _, err := Unpack(t.Context(), at, bytes.NewReader(pack(t, inside, owned, under, file("d/x", "2")))); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][4]uint32{"a": {1234, 70000, unix.S_IFREG | 0o6711, 1},
		"l": {5, 6, unix.S_IFLNK | 0o777, 1}, "d": {7, 8, unix.S_IFDIR | 0o2750, 2}} {
		var st unix.Stat_t
		if err := unix.Lstat(filepath.Join(at, name), &st); err != nil {
			t.Fatal(err)
		}
		if got := [4]uint32{st.Uid, st.Gid, st.Mode, uint32(st.Nlink)}; got != want && name != "d" || name == "d" &&
			[3]uint32(got[:3]) != [3]uint32(want[:3]) {
			t.Errorf("%s: got uid, gid, mode, links %v, want %v", name, got, want)
		}
	}
	for name, key := range map[string][2]string{"a": {"trusted.a", "v\x00w"}, "l": {"trusted.l", "of the link"},
		"d": {"trusted.d", "1"}} {
		b := make([]byte, 64)
		n, err := unix.Lgetxattr(filepath.Join(at, name), key[0], b)
		if err != nil || string(b[:max(n, 0)]) != key[1] {
			t.Errorf("%s of %s: got %q, %v, want %q", key[0], name, b[:max(n, 0)], err, key[1])
		}
	}

	if _, err := Unpack(t.Context(), at,
		bytes.NewReader(pack(t, entry{h: tar.Header{Name: "null", Typeflag: tar.TypeChar, Mode: 0o666, Devmajor: 1,
			Devminor: 3}}))); errors.Is(err, unix.EPERM) {
		t.Skip("NOT TESTED: devices: not allowed in this container")
	} else if err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Lstat(filepath.Join(at, "null"), &st); err != nil || st.Mode != unix.S_IFCHR|0o666 ||
		st.Rdev != unix.Mkdev(1, 3) {
		t.Errorf("null: got mode %o, device %d, %v", st.Mode, st.Rdev, err)
	}
}

// FuzzUnpack checks that no archive changes anything outside of the root.
func FuzzUnpack(f *testing.F) {
	f.Add(pack(f, dir("./", 0o755), file("a", "1"), link("b", "a", tar.TypeLink)))
	f.Add(pack(f, link("a", "..", tar.TypeSymlink), file("a/new", "1")))
	f.Add(pack(f, link("a", "../secret", tar.TypeLink), dir("a", 0o700), link("a/b", "/", tar.TypeSymlink),
		dir("a/b/root", 0)))
	f.Add([]byte("ustar"))
	f.Fuzz(func(t *testing.T, b []byte) {
		outside := t.TempDir()
		if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("s"), 0o600); err != nil {
			t.Fatal(err)
		}
		at := filepath.Join(outside, "root")
		if err := os.Mkdir(at, 0o755); err != nil {
			t.Fatal(err)
		}
		_, _ = Unpack(t.Context(), at, bytes.NewReader(b)) // the result does not matter
		untouched(t, outside)
		_ = os.Chmod(at, 0o755) // so that t.TempDir can remove it
	})
}
