package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // the formats register themselves
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

// pack writes one package. The descriptions are those of nfpm, with ${VERSION}, ${ARCH} and
// ${STAGE}.
func (r release) pack(config, arch, format string) (err error) {
	words := map[string]string{"VERSION": r.version, "ARCH": arch, "STAGE": r.stage}
	c, err := nfpm.ParseFileWithEnvMapping(config, func(word string) string { return words[word] })
	if err != nil {
		return fmt.Errorf("read %s: %w", config, err)
	}
	info, err := c.Get(format)
	if err != nil {
		return fmt.Errorf("read %s: %w", config, err)
	}
	info = nfpm.WithDefaults(info)
	info.MTime = r.at
	packager, err := nfpm.Get(format)
	if err != nil {
		return fmt.Errorf("find the packager: %w", err)
	}
	file, err := os.Create(filepath.Join(r.out, packager.ConventionalFileName(info)))
	if err != nil {
		return fmt.Errorf("create the file: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := packager.Package(info, file); err != nil {
		return fmt.Errorf("write %s: %w", file.Name(), err)
	}
	return nil
}

// sums writes SHA256SUMS of all other files in the directory, as sha256sum -c reads it.
func sums(dir string) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("list the files: %w", err)
	}
	var b strings.Builder
	for _, f := range files {
		if f.Name() == "SHA256SUMS" {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return fmt.Errorf("sum up: %w", err)
		}
		fmt.Fprintf(&b, "%x  %s\n", sha256.Sum256(raw), f.Name())
	}
	text := []byte(b.String())
	if err := os.WriteFile(filepath.Join(dir, "SHA256SUMS"), text, 0o644); err != nil { //nolint:gosec // public
		return fmt.Errorf("write the sums: %w", err)
	}
	return nil
}
