package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/holdfast-metal/holdfast/tools/release/image"
)

// debs names the Debian packages of images.
type debs struct {
	list string // file with checksums and URLs
	dir  string // directory for downloads
}

// image writes the image of a binary for all architectures, and a file with its digest.
func (r release) image(ctx context.Context, name string, d debs) error {
	list, err := os.Open(d.list)
	if err != nil {
		return fmt.Errorf("open the list of packages: %w", err)
	}
	defer func() { _ = list.Close() }() // it was only read
	pins, err := image.ReadPins(list)
	if err != nil {
		return fmt.Errorf("read %s: %w", d.list, err)
	}
	c := image.Config{Name: name, Version: r.version, Revision: r.revision, License: "LICENSE", At: r.at}
	for _, arch := range r.arches {
		files, err := pins.Fetch(ctx, d.dir, arch)
		if err != nil {
			return err
		}
		binary := filepath.Join(r.stage, arch, name)
		c.Binaries = append(c.Binaries, image.Binary{Arch: arch, Path: binary, Debs: files})
	}
	file := filepath.Join(r.out, fmt.Sprintf("%s-%s-oci.tar", name, r.version))
	digest, err := image.Write(c, file)
	if err != nil {
		return err
	}
	//nolint:gosec // a release is public
	if err := os.WriteFile(file+".digest", []byte(digest+"\n"), 0o644); err != nil {
		return fmt.Errorf("write the digest: %w", err)
	}
	return nil
}
