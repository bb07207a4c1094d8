package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// An archive can be read to its end, and every entry begins at a multiple of four.
func TestArchive(t *testing.T) {
	packed, err := compress(archive([]file{dir("etc"), {name: "init", mode: 0o100755, data: []byte("binary")},
		{name: "dev/console", mode: 0o20600, major: 5, minor: 1}}))
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	want := "070701" + "00000001" + "000041ed" + strings.Repeat("0", 16) + "00000001" + strings.Repeat("0", 8*6) +
		"00000004" + "00000000" + "etc\x00\x00\x00"
	if !strings.HasPrefix(string(got), want) {
		t.Errorf("got %q at its start, want %q", got[:len(want)], want)
	}
	for _, name := range []string{"init\x00", "dev/console\x00", "TRAILER!!!\x00"} {
		at := bytes.Index(got, []byte(name)) - 110
		if at < 0 || at%4 != 0 || string(got[at:at+6]) != "070701" {
			t.Errorf("%q: got its header at %d", name, at)
		}
	}
}

func TestPickNeedsModules(t *testing.T) {
	if _, _, err := pick(t.TempDir(), []string{"virtio_blk"}); err == nil {
		t.Error("tree without modules: got no error")
	}
	tree := t.TempDir()
	if err := os.WriteFile(filepath.Join(tree, "virtio-blk.ko"), []byte("no ELF"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := pick(tree, []string{"virtio_blk"}); err == nil || !strings.Contains(err.Error(), "virtio-blk.ko") {
		t.Errorf("module that is no ELF file: got %v", err)
	}
}

// Programs are packed with their libraries and loaders, which are found by the last part of the
// name. Links of packages lead to the installed files.
func TestGather(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	elf, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	tree := t.TempDir()
	for _, name := range []string{"sbin/mke2fs", "usr/sbin/mkfs.fat.real"} {
		if err := os.MkdirAll(filepath.Join(tree, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(tree, name), elf, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := gather(tree); err == nil ||
		!strings.Contains(err.Error(), "find mkfs.fat: in none of the packages") {
		t.Errorf("without mkfs.fat: got %v", err)
	}
	if err := os.Symlink("/sbin/mke2fs", filepath.Join(tree, "usr/sbin/mkfs.fat")); err != nil {
		t.Fatal(err)
	}
	files, err := gather(tree)
	if libs, _, lerr := linked(program); lerr == nil && len(libs) > 0 {
		if err == nil || !strings.Contains(err.Error(), ".so") {
			t.Errorf("without libraries: got %v", err)
		}
		return // tests with the race detector are not static
	}
	var got []string
	for _, f := range files {
		got = append(got, f.name)
	}
	if want := "sbin sbin/mke2fs sbin/mkfs.fat"; err != nil || strings.Join(got, " ") != want {
		t.Errorf("got %v, %v, want %s", got, err, want)
	}
}
