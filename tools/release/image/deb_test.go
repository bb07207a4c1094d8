package image

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/blakesmith/ar"
	"github.com/ulikunitz/xz"
)

// deb writes a package whose files have the modes. Each has its name as content.
func deb(t *testing.T, name string, modes map[string]int64) string {
	t.Helper()
	var out bytes.Buffer
	w := ar.NewWriter(&out)
	if err := w.WriteGlobalHeader(); err != nil {
		t.Fatal(err)
	}
	for _, member := range []struct {
		name string
		body []byte
	}{
		{"debian-binary", []byte("2.0\n")},
		{"control.tar.xz", packed(t, map[string]int64{"./control": 0o644, "./postinst": 0o755})},
		{"data.tar.xz", packed(t, modes)},
	} {
		if err := w.WriteHeader(&ar.Header{Name: member.name, Size: int64(len(member.body)), Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(member.body); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(t.TempDir(), name+"_1.0_all.deb")
	writeFile(t, file, out.String())
	return file
}

func packed(t *testing.T, modes map[string]int64) []byte {
	t.Helper()
	var out bytes.Buffer
	zip, err := xz.NewWriter(&out)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(zip)
	for _, name := range slices.Sorted(maps.Keys(modes)) {
		err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: modes[name], Size: int64(len(name))})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, name); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), zip.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestNeeded(t *testing.T) {
	for _, c := range []struct {
		pkg, name string
		want      bool
	}{
		{"ipmitool", "usr/bin/ipmitool", true},
		{"ipmitool", "usr/sbin/ipmievd", false},
		{"ipmitool", "usr/share/doc/ipmitool/copyright", true},
		{"ipmitool", "usr/share/doc/ipmitool/changelog.gz", false},
		{"libc6", "lib/x86_64-linux-gnu/libc.so.6", true},
		{"libc6", "lib64/ld-linux-x86-64.so.2", true},
		{"libc6", "usr/lib/x86_64-linux-gnu/gconv/BIG5.so", false},
		{"coreutils", "usr/bin/stdbuf", true},
		{"coreutils", "usr/libexec/coreutils/libstdbuf.so", true},
		{"coreutils", "bin/rm", false},
		{"base-files", "etc/os-release", true},
		{"base-files", "etc/issue", false},
	} {
		if got := needed(c.pkg, c.name); got != c.want {
			t.Errorf("needed(%s, %s) = %t, want %t", c.pkg, c.name, got, c.want)
		}
	}
}

// untar unpacks an image's file into a new directory.
func untar(t *testing.T, file string) string {
	t.Helper()
	dir := t.TempDir()
	for in := tar.NewReader(bytes.NewReader(readFile(t, file))); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, h.Name)
		if h.Typeflag == tar.TypeDir {
			err = os.Mkdir(name, 0o750)
		} else {
			var body []byte
			if body, err = io.ReadAll(in); err == nil {
				err = os.WriteFile(name, body, 0o600)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
