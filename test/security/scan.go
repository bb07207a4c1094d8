// Package security runs real clusters, and tries to find in what they leave and show that which
// must not be there.
//
// It owns the search for secrets in files and texts. What callers may do is tested where that is
// decided, in server/auth.
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

// Needles are the secrets to look for, by what they are.
type Needles map[string]string

// Finding says what was found, in which spelling, and where.
type Finding struct{ What, Spelling, Where string }

func (f Finding) String() string { return fmt.Sprintf("%s (%s) in %s", f.What, f.Spelling, f.Where) }

// spellings returns how a secret may be written. Base64 depends on what stands before it: all three
// positions are tried, without what its neighbours have a part in.
func spellings(secret string) map[string][]byte {
	b := []byte(secret)
	all := map[string][]byte{
		"as it is":   b,
		"backwards":  reversed(b),
		"hex":        []byte(hex.EncodeToString(b)),
		"HEX":        []byte(strings.ToUpper(hex.EncodeToString(b))),
		"in UTF-16":  utf16(b),
		"in decimal": []byte(strings.Trim(fmt.Sprintf("%d", b), "[]")), // a []byte that was printed
	}
	for pad := range 3 {
		for name, enc := range map[string]*base64.Encoding{"base64": base64.RawStdEncoding, "base64url": base64.RawURLEncoding} {
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

// Text looks for secrets in a text.
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

// Files looks for secrets in all files below a directory, and in their names. It gives how many
// bytes it has looked at. A peer that runs replaces its files (a snapshot is written beside its
// place and renamed): where one goes while it is looked for, all are looked at again, so that none
// is missed under its new name.
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
