package security

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSearchFinds checks that the search finds secrets in every spelling. Otherwise an empty result
// would prove nothing.
func TestSearchFinds(t *testing.T) {
	const secret = "correct-horse-battery-staple"
	n := Needles{"the password": secret}
	for name, text := range map[string]string{
		"log line":             `level=INFO msg="dialing" password=` + secret + "\n",
		"printed bytes":        fmt.Sprintf("body=%v", []byte(secret)),
		"hex":                  "x" + hex.EncodeToString([]byte(secret)),
		"base64":               base64.StdEncoding.EncodeToString([]byte(secret)),
		"Basic":                base64.StdEncoding.EncodeToString([]byte("id:" + secret)),
		"Basic, shifted":       base64.StdEncoding.EncodeToString([]byte("idx:" + secret + ":x")),
		"Basic, shifted again": base64.URLEncoding.EncodeToString([]byte("i:" + secret + "??")),
		"among binary":         "\x00\x01" + secret + "\xff",
	} {
		if len(n.Text("there", []byte(text))) == 0 {
			t.Errorf("%s: not found in %q", name, text)
		}
		dir := t.TempDir()
		if err := os.MkdirAll(filepath.Join(dir, "a", "b"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "a", "b", "raft.db"), []byte(strings.Repeat("\x00", 5000)+text),
			0o600); err != nil {
			t.Fatal(err)
		}
		if found, size, err := n.Files(dir); err != nil || len(found) == 0 || size != int64(5000+len(text)) {
			t.Errorf("%s: got %v in %d bytes, %v", name, found, size, err)
		}
	}
	if found := n.Text("there", []byte("password=[redacted] staple-battery correct-horse")); len(found) != 0 {
		t.Errorf("got findings %v, want none", found)
	}
}

// renaming is a directory in which a file gets its final name when it is first opened.
type renaming struct {
	fs.FS
	from, to string
}

func (r renaming) Open(name string) (fs.File, error) {
	if name == filepath.Base(r.from) {
		if err := os.Rename(r.from, r.to); err != nil {
			return nil, err
		}
	}
	return r.FS.Open(name)
}

// TestSearchFollowsRenames checks that a file that is renamed during the search is found under its
// new name.
func TestSearchFollowsRenames(t *testing.T) {
	const secret = "correct-horse-battery-staple"
	dir := t.TempDir()
	from := filepath.Join(dir, "3-47.tmp")
	if err := os.WriteFile(from, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	tree := renaming{FS: os.DirFS(dir), from: from, to: filepath.Join(dir, "3-47")}
	found, size, err := Needles{"the password": secret}.tree(tree, dir)
	if err != nil || len(found) != 1 || size != int64(len(secret)) {
		t.Errorf("got %v in %d bytes, %v, want the secret once", found, size, err)
	}
	if _, _, err := (Needles{}).Files(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want an error for a missing directory", err)
	}
}
