// Package security runs real clusters, and searches their files and outputs for secrets
// that must not be there.
//
// It has the search for secrets in files and texts. server/auth has the tests of
// permissions.
package security

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Needles are the secrets to search for, by description.
type Needles map[string]string

// Finding is a secret that was found, its spelling and its place.
type Finding struct{ What, Spelling, Where string }

func (f Finding) String() string { return fmt.Sprintf("%s (%s) in %s", f.What, f.Spelling, f.Where) }

// spellings returns the ways in which a secret may be written. Base64 depends on the
// preceding bytes, so all three positions are tried, without characters that depend on
// neighbouring bytes.
func spellings(secret string) map[string][]byte {
	b := []byte(secret)
	all := map[string][]byte{
		"as it is":   b,
		"backwards":  reversed(b),
		"hex":        []byte(hex.EncodeToString(b)),
		"HEX":        []byte(strings.ToUpper(hex.EncodeToString(b))),
		"in UTF-16":  utf16(b),
		"in decimal": []byte(strings.Trim(fmt.Sprintf("%d", b), "[]")), // a printed []byte
	}
	for pad := range 3 {
		for name, enc := range map[string]*base64.Encoding{
			"base64": base64.RawStdEncoding, "base64url": base64.RawURLEncoding,
		} {
			text := enc.EncodeToString(append(make([]byte, pad), b...))
			skip := []int{0, 2, 3}[pad]
			if end := len(text) - 3; end-skip >= 12 {
				all[fmt.Sprintf("%s at %d", name, pad)] = []byte(text[skip:end])
			}
		}
	}
	return all
}

func reversed(b []byte) []byte {
	r := slices.Clone(b)
	slices.Reverse(r)
	return r
}

func utf16(b []byte) []byte {
	var out []byte
	for _, c := range b {
		out = append(out, c, 0)
	}
	return out[:len(out)-1]
}

// Text searches a text for secrets.
func (n Needles) Text(where string, text []byte) []Finding {
	var found []Finding
	for what, secret := range n {
		for spelling, s := range spellings(secret) {
			if bytes.Contains(text, s) {
				found = append(found, Finding{what, spelling, where})
			}
		}
	}
	return found
}

// Files searches all files in a directory, and their names, for secrets. It returns how
// many bytes it has searched. A running peer replaces its files (it writes a snapshot to a
// temporary name and renames it). So if a file disappears during the search, the search
// starts again and finds it under its new name.
func (n Needles) Files(dir string) (found []Finding, size int64, err error) {
	return n.tree(os.DirFS(dir), dir)
}

func (n Needles) tree(tree fs.FS, dir string) (found []Finding, size int64, err error) {
	for range 20 {
		if found, size, err = n.pass(tree, dir); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	if err != nil {
		return nil, 0, fmt.Errorf("look for secrets below %s: %w", dir, err)
	}
	return found, size, nil
}

func (n Needles) pass(tree fs.FS, dir string) (found []Finding, size int64, err error) {
	err = fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		path := filepath.Join(dir, name)
		found = append(found, n.Text("the name of "+path, []byte(d.Name()))...)
		if !d.Type().IsRegular() {
			return nil
		}
		b, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		size += int64(len(b))
		found = append(found, n.Text(path, b)...)
		return nil
	})
	return found, size, err
}
