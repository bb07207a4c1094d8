package image

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// lab has a root directory for each service.
type lab struct {
	t       *testing.T
	dir     string
	compose compose
	config  v1.Config
	running map[string]*exec.Cmd
	log     buffer
}

func newLab(t *testing.T, file string) *lab {
	t.Helper()
	l := &lab{t: t, dir: t.TempDir(), compose: readCompose(t), running: map[string]*exec.Cmd{}}
	_, index := open(t, file)
	list, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range list.Manifests {
		if m.Platform.Architecture == runtime.GOARCH {
			img, err := index.Image(m.Digest)
			if err != nil {
				t.Fatal(err)
			}
			l.unpack(img)
			return l
		}
	}
	t.Fatalf("%s has no image for %s", file, runtime.GOARCH)
	return nil
}

func (l *lab) root(service string) string { return filepath.Join(l.dir, service) }

// unpack makes the roots.
func (l *lab) unpack(img v1.Image) {
	l.t.Helper()
	file, err := img.ConfigFile()
	if err != nil {
		l.t.Fatal(err)
	}
	l.config = file.Config
	base := l.root("base")
	r := mutate.Extract(img)
	defer r.Close()
	for in := tar.NewReader(r); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil && unsafe(h) {
			l.t.Errorf("%s has mode %o, want no setuid and no other writers", h.Name, h.Mode)
		}
		if err == nil {
			err = place(filepath.Join(base, h.Name), h, in)
		}
		if err != nil {
			l.t.Fatalf("unpack the image: %v", err)
		}
	}
	for name, s := range l.compose.Services {
		l.copy(base, l.root(name))
		for _, c := range s.Configs {
			l.write(name, c.Target, l.compose.Configs[c.Source].Content)
		}
	}
	l.resolve(0)
}

// resolve gives each service an address. Peers with another shift have the addresses of each other.
func (l *lab) resolve(shift int) {
	l.t.Helper()
	hosts := "127.0.0.1 localhost\n127.86.0.4 fleet\n"
	for i, name := range []string{"n1", "n2", "n3"} {
		hosts += fmt.Sprintf("127.86.0.%d %s\n", (i+shift)%3+1, name)
	}
	for name := range l.compose.Services {
		l.write(name, "etc/hosts", hosts)
	}
}

// write writes a file that all users may read.
func (l *lab) write(service, file, text string) {
	l.t.Helper()
	name := filepath.Join(l.root(service), file)
	writeFile(l.t, name, text)
	if err := os.Chmod(name, 0o644); err != nil {
		l.t.Fatal(err)
	}
}

// unsafe reports whether a file runs as its owner, or anybody may write it. /tmp is sticky.
func unsafe(h *tar.Header) bool {
	open := h.Mode&0o002 != 0 && h.Mode&0o1000 == 0 && h.Typeflag != tar.TypeSymlink
	return h.Mode&0o6000 != 0 || open
}

// place creates one file of an image.
func place(name string, h *tar.Header, body io.Reader) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		if err := os.MkdirAll(name, 0o755); err != nil {
			return err
		}
	case tar.TypeSymlink:
		return os.Symlink(h.Linkname, name)
	default:
		raw, err := io.ReadAll(body)
		if err != nil {
			return err
		}
		if err := os.WriteFile(name, raw, 0o600); err != nil {
			return err
		}
	}
	return errors.Join(os.Chown(name, h.Uid, h.Gid), os.Chmod(name, h.FileInfo().Mode()))
}

// share copies a volume that one service filled to all others.
func (l *lab) share(from, source, target string) {
	l.t.Helper()
	for name := range l.compose.Services {
		if name != from {
			l.copy(filepath.Join(l.root(from), source), filepath.Join(l.root(name), target))
		}
	}
}

// copy makes the directories anew and links the files.
func (l *lab) copy(from, to string) {
	l.t.Helper()
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		target, owner := filepath.Join(to, rel), info.Sys().(*syscall.Stat_t)
		if !d.IsDir() {
			return os.Link(path, target)
		}
		return errors.Join(os.Mkdir(target, 0o755), os.Chown(target, int(owner.Uid), int(owner.Gid)),
			os.Chmod(target, info.Mode()))
	})
	if err != nil {
		l.t.Fatalf("copy %s: %v", from, err)
	}
}

// buffer is safe for concurrent use.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
