package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

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
