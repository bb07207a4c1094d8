// Package image builds OCI images from static binaries, without a container engine.
//
// It owns the files of an image, its configuration, and the OCI layout in a tar file. The same
// input yields the same bytes. It must not build binaries or push images.
package image

import (
	"errors"
	"fmt"
	"os"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Binary is a static binary for one architecture.
type Binary struct {
	Arch string // with Go's name
	Path string
	Debs []string // Debian packages with files for the image, see Pins.Fetch
}

// Config describes an image for all architectures.
type Config struct {
	Name     string // "holdfast" or "holdfast-agent"
	Version  string
	Revision string // commit; empty: unknown
	License  string // path of the license
	At       time.Time
	Binaries []Binary
}

// Write writes the image to a file, as an OCI layout in a tar file. It returns the digest of the
// image, by which registries name it.
func Write(c Config, file string) (digest string, err error) {
	p, err := profileOf(c.Name)
	if err != nil {
		return "", err
	}
	index := mutate.Annotations(empty.Index, p.labels(c)).(v1.ImageIndex)
	for _, b := range c.Binaries {
		img, err := one(c, p, b)
		if err != nil {
			return "", fmt.Errorf("image for %s: %w", b.Arch, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        plain{img},
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: b.Arch}},
		})
	}
	hash, err := index.Digest()
	if err != nil {
		return "", fmt.Errorf("compute the digest: %w", err)
	}
	out, err := os.Create(file)
	if err != nil {
		return "", fmt.Errorf("create the file: %w", err)
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if err := writeLayout(out, c, index); err != nil {
		return "", fmt.Errorf("write %s: %w", file, err)
	}
	return hash.String(), nil
}

// plain is an image without an artifact type. Otherwise the library adds the type of the
// configuration to the index, and engines that know artifacts may take the image for one.
type plain struct{ v1.Image }

// ArtifactType returns no type.
func (plain) ArtifactType() (string, error) { return "", nil }

// one returns the image for one architecture. The layer with the binary is the last one, so that a
// new release replaces no other.
func one(c Config, p profile, b Binary) (v1.Image, error) {
	base, err := baseLayer(c, p, b.Debs)
	if err != nil {
		return nil, fmt.Errorf("base layer: %w", err)
	}
	product, err := productLayer(c, b.Path)
	if err != nil {
		return nil, fmt.Errorf("layer of the binary: %w", err)
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	at := v1.Time{Time: c.At}
	img, err = mutate.Append(img,
		mutate.Addendum{Layer: base, History: v1.History{Created: at, CreatedBy: "directories and Debian packages"}},
		mutate.Addendum{Layer: product, History: v1.History{Created: at, CreatedBy: "binary"}})
	if err != nil {
		return nil, fmt.Errorf("append the layers: %w", err)
	}
	file, err := img.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Created, file.Config = "linux", b.Arch, at, p.config(c)
	return mutate.ConfigFile(img, file)
}
