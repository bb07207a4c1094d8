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

// What is packed can be read to its end, and every entry begins at a multiple of four.
func TestArchive(t *testing.T) {
	packed, err := compress(archive([]file{dir("etc"), {name: "init", mode: 0o100755, data: []byte("binary")}, {name: "dev/console", mode: 0o20600, major: 5, minor: 1}}))
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
	want := "070701" + "00000001" + "000041ed" + strings.Repeat("0", 16) + "00000001" + strings.Repeat("0", 8*6) + "00000004" + "00000000" + "etc\x00\x00\x00"
	if !strings.HasPrefix(string(got), want) {
		t.Errorf("it begins with %q, want %q", got[:len(want)], want)
	}
	for _, name := range []string{"init\x00", "dev/console\x00", "TRAILER!!!\x00"} {
		at := bytes.Index(got, []byte(name)) - 110
		if at < 0 || at%4 != 0 || string(got[at:at+6]) != "070701" {
			t.Errorf("%q has its header at %d", name, at)
		}
	}
}

func TestPickNeedsModules(t *testing.T) {
	if _, _, err := pick(t.TempDir(), []string{"virtio_blk"}); err == nil {
		t.Error("a tree without modules: no error")
	}
	tree := t.TempDir()
	if err := os.WriteFile(filepath.Join(tree, "virtio-blk.ko"), []byte("no ELF"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := pick(tree, []string{"virtio_blk"}); err == nil || !strings.Contains(err.Error(), "virtio-blk.ko") {
		t.Errorf("a module that is none: %v", err)
	}
}
