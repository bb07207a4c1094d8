package image

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/blakesmith/ar"
	"github.com/ulikunitz/xz"
)

// rootsFile has the certificates of public CAs; Go and OpenSSL look for it.
const rootsFile = "etc/ssl/certs/ca-certificates.crt"

// unpack adds the files of a Debian package that containers need, and its description, by which
// scanners know the package. Without programs, only roots of TLS and the description of the system
// are added.
func unpack(t tree, deb string, programs bool) error {
	pkg, _, _ := strings.Cut(filepath.Base(deb), "_")
	if !programs && pkg != "ca-certificates" && pkg != "base-files" {
		return nil
	}
	file, err := os.Open(deb)
	if err != nil {
		return fmt.Errorf("open the package: %w", err)
	}
	defer func() { _ = file.Close() }() // it was only read
	for members := ar.NewReader(file); ; {
		h, err := members.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the package: %w", err)
		}
		add := func(h *tar.Header, body []byte) { addFile(t, pkg, h, body) }
		switch name := strings.TrimSuffix(h.Name, "/"); name {
		case "debian-binary":
			continue
		case "control.tar.xz":
			add = func(h *tar.Header, body []byte) {
				if path.Clean(h.Name) == "control" {
					t.file("var/lib/dpkg/status.d/"+pkg, 0o644, body)
				}
			}
		case "data.tar.xz":
		default:
			return fmt.Errorf("member %q: want control.tar.xz or data.tar.xz", name)
		}
		if err := eachFile(members, add); err != nil {
			return fmt.Errorf("member %s: %w", h.Name, err)
		}
	}
}

// eachFile calls do for each file and symbolic link of a compressed tar file.
func eachFile(r io.Reader, do func(*tar.Header, []byte)) error {
	plain, err := xz.NewReader(r)
	if err != nil {
		return fmt.Errorf("decompress: %w", err)
	}
	for files := tar.NewReader(plain); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read: %w", err)
		}
		body, err := io.ReadAll(files)
		if err != nil {
			return fmt.Errorf("read %s: %w", h.Name, err)
		}
		switch h.Typeflag {
		case tar.TypeReg, tar.TypeSymlink:
			do(h, body)
		case tar.TypeDir:
		default:
			return fmt.Errorf("%s: want files, links and directories", h.Name)
		}
	}
}

// addFile adds a file of a package if containers need it.
func addFile(t tree, pkg string, h *tar.Header, body []byte) {
	name := path.Clean(strings.TrimPrefix(h.Name, "./"))
	if pkg == "ca-certificates" && path.Ext(name) == ".crt" { // as update-ca-certificates does
		t.file(rootsFile, 0o644, append(t[rootsFile].body, append(bytes.TrimSpace(body), '\n')...))
		return
	}
	if needed(pkg, name) {
		t.add(name, entry{kind: h.Typeflag, mode: h.Mode & 0o755, target: h.Linkname, body: body})
	}
}

// needed reports whether containers need a file: programs, libraries and licenses.
func needed(pkg, name string) bool {
	base := path.Base(name)
	if strings.HasPrefix(name, "usr/share/doc/") {
		return base == "copyright"
	}
	switch pkg {
	case "base-files":
		return base == "os-release" || strings.HasPrefix(name, "usr/share/common-licenses/")
	case "coreutils":
		return base == "stdbuf" || base == "timeout" || base == "libstdbuf.so"
	}
	if strings.Contains(name, "/gconv/") {
		return false // conversions of character sets: 8 MB
	}
	return strings.HasPrefix(name, "usr/bin/") || strings.Contains(base, ".so")
}
