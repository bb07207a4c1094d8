package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// entry is a file, a directory or a symbolic link.
type entry struct {
	kind   byte // tar.TypeReg, …
	mode   int64
	owner  int // user and group
	target string
	body   []byte
}

// tree is the files of a layer by their path, without a leading slash.
type tree map[string]entry

func (t tree) add(name string, e entry) {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if _, ok := t[dir]; !ok {
			t[dir] = entry{kind: tar.TypeDir, mode: 0o755}
		}
	}
	t[name] = e
}

func (t tree) dir(name string, mode int64, owner int) {
	t.add(name, entry{kind: tar.TypeDir, mode: mode, owner: owner})
}

func (t tree) file(name string, mode int64, body []byte) {
	t.add(name, entry{kind: tar.TypeReg, mode: mode, body: body})
}

// layer returns the files as a layer, sorted by path, with one time for all.
func (t tree) layer(at time.Time) (v1.Layer, error) {
	var packed bytes.Buffer
	zip, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	w := tar.NewWriter(zip)
	for _, name := range slices.Sorted(maps.Keys(t)) {
		e := t[name]
		h := &tar.Header{
			Typeflag: e.kind, Name: name, Linkname: e.target, Mode: e.mode, Uid: e.owner, Gid: e.owner,
			Size: int64(len(e.body)), ModTime: at, Format: tar.FormatPAX,
		}
		if e.kind == tar.TypeDir {
			h.Name += "/"
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("pack %s: %w", name, err)
		}
		if _, err := w.Write(e.body); err != nil {
			return nil, fmt.Errorf("pack %s: %w", name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("pack: %w", err)
	}
	if err := zip.Close(); err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer))
}
