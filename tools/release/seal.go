package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Files about the other files of a release, each of which covers those before it.
const (
	provenanceFile = "provenance.json"
	sumsFile       = "SHA256SUMS"
	signatureFile  = "SHA256SUMS.minisig"
)

// sum is the SHA-256 of a file, in hex.
type sum struct{ name, sha256 string }

// seal writes the provenance, the sums and the signature of the files in r.out. Images that
// are made without packages may join files of an earlier build: then the provenance of that
// build and its signature are deleted, because neither holds for all files.
func (r release) seal(configs []string) error {
	for _, old := range []string{provenanceFile, signatureFile} {
		if err := os.Remove(filepath.Join(r.out, old)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove the %s of an earlier build: %w", old, err)
		}
	}
	if len(configs) > 0 {
		if err := r.state(configs); err != nil {
			return fmt.Errorf("provenance: %w", err)
		}
	}
	if err := writeSums(r.out); err != nil {
		return err
	}
	if r.key == nil {
		return nil
	}
	return r.sign()
}

// writeSums writes SHA256SUMS of all other files in the directory, as sha256sum -c reads it.
func writeSums(dir string) error {
	all, err := sums(dir)
	if err != nil {
		return err
	}
	var b strings.Builder
	for _, s := range all {
		fmt.Fprintf(&b, "%s  %s\n", s.sha256, s.name)
	}
	return publish(filepath.Join(dir, sumsFile), []byte(b.String()))
}

// sums returns the sums of the files in a directory, by name, without those of SHA256SUMS and
// its signature.
func sums(dir string) ([]sum, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list the files: %w", err)
	}
	var all []sum
	for _, f := range files {
		if f.Name() == sumsFile || f.Name() == signatureFile {
			continue
		}
		s, err := sumOf(filepath.Join(dir, f.Name()))
		if err != nil {
			return nil, err
		}
		all = append(all, sum{f.Name(), s})
	}
	return all, nil
}

// sumOf returns the SHA-256 of a file, in hex.
func sumOf(file string) (string, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("sum up: %w", err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(raw)), nil
}

// publish writes a file that everybody may read.
func publish(file string, text []byte) error {
	if err := os.WriteFile(file, text, 0o644); err != nil { //nolint:gosec // a release is public
		return fmt.Errorf("write %s: %w", filepath.Base(file), err)
	}
	return nil
}
