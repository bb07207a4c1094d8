package image

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// writeLayout writes an OCI layout with one image as a tar file. The name is local: an engine that
// lacks the image must not ask a registry for it.
func writeLayout(w io.Writer, c Config, image v1.ImageIndex) (err error) {
	names := map[string]string{
		"io.containerd.image.name":          "localhost/" + c.Name + ":" + c.Version,
		"org.opencontainers.image.ref.name": c.Version,
	}
	dir, err := os.MkdirTemp("", "oci-")
	if err != nil {
		return fmt.Errorf("create a directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	index := mutate.AppendManifests(empty.Index,
		mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Annotations: names}})
	if _, err := layout.Write(dir, index); err != nil {
		return fmt.Errorf("write the layout: %w", err)
	}
	return pack(w, os.DirFS(dir), c.At)
}

// pack writes all files as a tar file, sorted by path, with one time for all.
func pack(w io.Writer, files fs.FS, at time.Time) error {
	out := tar.NewWriter(w)
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		if d.IsDir() {
			return out.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755, ModTime: at})
		}
		raw, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(raw)), ModTime: at}
		if err := out.WriteHeader(h); err != nil {
			return err
		}
		_, err = out.Write(raw)
		return err
	})
	return errors.Join(err, out.Close())
}
