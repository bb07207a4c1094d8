package image

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

var at = time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC)

// build writes the image of tiny binaries, and returns the file and its digest.
func build(t *testing.T, name string) (file, digest string) {
	t.Helper()
	dir := t.TempDir()
	license := filepath.Join(dir, "LICENSE")
	writeFile(t, license, "license")
	c := Config{
		Name: name, Version: "1.2.3", Revision: "abc", License: license,
		At: at,
	}
	for _, arch := range []string{"amd64", "arm64"} {
		binary := filepath.Join(dir, arch)
		writeFile(t, binary, "binary for "+arch)
		c.Binaries = append(c.Binaries, Binary{Arch: arch, Path: binary, Debs: []string{
			deb(t, "ipmitool", map[string]int64{"./usr/bin/ipmitool": 0o6777, "./usr/share/man/ipmitool.8": 0o644}),
			deb(t, "ca-certificates", map[string]int64{"./usr/share/a.crt": 0o644, "./usr/share/b.crt": 0o644}),
		}})
	}
	file = filepath.Join(dir, "image.tar")
	digest, err := Write(c, file)
	if err != nil {
		t.Fatalf("Write: %v", err)
	}
	return file, digest
}

// open returns the image in a tar file, after a check of all its digests.
func open(t *testing.T, file string) (v1.Descriptor, v1.ImageIndex) {
	t.Helper()
	outer, err := layout.ImageIndexFromPath(untar(t, file))
	if err != nil {
		t.Fatalf("open the layout: %v", err)
	}
	if err := validate.Index(outer); err != nil {
		t.Fatalf("validate the layout: %v", err)
	}
	list, err := outer.IndexManifest()
	if err != nil || len(list.Manifests) != 1 {
		t.Fatalf("the layout has the images %v, %v: want one", list, err)
	}
	image, err := outer.ImageIndex(list.Manifests[0].Digest)
	if err != nil {
		t.Fatalf("open the image: %v", err)
	}
	return list.Manifests[0], image
}

func TestWriteIsDeterministic(t *testing.T) {
	first, _ := build(t, "holdfast")
	second, _ := build(t, "holdfast")
	if !bytes.Equal(readFile(t, first), readFile(t, second)) {
		t.Error("two builds differ")
	}
	for in := tar.NewReader(bytes.NewReader(readFile(t, first))); ; { // two builds may take the same second
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if !h.ModTime.Equal(at) {
			t.Errorf("%s has the time %s, want that of the release, %s", h.Name, h.ModTime, at)
		}
	}
}

func TestImage(t *testing.T) {
	file, digest := build(t, "holdfast")
	named, index := open(t, file)
	if got := named.Digest.String(); got != digest {
		t.Errorf("digest = %s, want that in the layout, %s", digest, got)
	}
	wantNames := map[string]string{
		"io.containerd.image.name":          "localhost/holdfast:1.2.3",
		"org.opencontainers.image.ref.name": "1.2.3",
	}
	if diff := cmp.Diff(wantNames, named.Annotations); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	list, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var platforms []string
	for _, m := range list.Manifests {
		platforms = append(platforms, m.Platform.String())
		if m.ArtifactType != "" {
			t.Errorf("%s has the artifact type %q, want none", m.Platform, m.ArtifactType)
		}
		img, err := index.Image(m.Digest)
		if err != nil {
			t.Fatal(err)
		}
		checkConfig(t, img, m.Platform.Architecture)
		checkFiles(t, img, m.Platform.Architecture)
	}
	if diff := cmp.Diff([]string{"linux/amd64", "linux/arm64"}, platforms); diff != "" {
		t.Errorf("platforms (-want +got):\n%s", diff)
	}
}

func checkConfig(t *testing.T, img v1.Image, arch string) {
	t.Helper()
	file, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if file.OS != "linux" || file.Architecture != arch {
		t.Errorf("the configuration is for %s/%s, want linux/%s", file.OS, file.Architecture, arch)
	}
	want := v1.Config{
		User: "65532:65532", Env: []string{"PATH=/usr/bin"},
		Entrypoint: []string{"/usr/bin/holdfast"}, Cmd: []string{"server"},
		WorkingDir: "/var/lib/holdfast", Volumes: map[string]struct{}{"/var/lib/holdfast": {}},
		ExposedPorts: map[string]struct{}{
			"7400/tcp": {}, "7401/tcp": {}, "7402/tcp": {}, "7403/tcp": {}, "7403/udp": {},
		},
		StopSignal: "SIGTERM",
		Labels: map[string]string{
			"org.opencontainers.image.title":         "holdfast",
			"org.opencontainers.image.description":   "Highly available control plane for bare metal",
			"org.opencontainers.image.version":       "1.2.3",
			"org.opencontainers.image.revision":      "abc",
			"org.opencontainers.image.created":       "2026-11-27T00:00:00Z",
			"org.opencontainers.image.source":        source,
			"org.opencontainers.image.documentation": source + "/blob/main/docs/containers.md",
			"org.opencontainers.image.licenses":      "Apache-2.0",
		},
	}
	if diff := cmp.Diff(want, file.Config); diff != "" {
		t.Errorf("configuration for %s (-want +got):\n%s", arch, diff)
	}
}

func checkFiles(t *testing.T, img v1.Image, arch string) {
	t.Helper()
	list, bodies := files(t, img)
	want := map[string]string{
		"etc/":                                  "755 0",
		"etc/group":                             "644 0",
		"etc/holdfast/":                         "755 0",
		"etc/nsswitch.conf":                     "644 0",
		"etc/passwd":                            "644 0",
		"etc/ssl/":                              "755 0",
		"etc/ssl/certs/":                        "755 0",
		rootsFile:                               "644 0",
		"tmp/":                                  "1777 0",
		"usr/":                                  "755 0",
		"usr/bin/":                              "755 0",
		"usr/bin/holdfast":                      "755 0",
		"usr/bin/ipmitool":                      "755 0", // the package has it setuid and writable
		"usr/share/":                            "755 0",
		"usr/share/doc/":                        "755 0",
		"usr/share/doc/holdfast/":               "755 0",
		"usr/share/doc/holdfast/copyright":      "644 0",
		"var/":                                  "755 0",
		"var/lib/":                              "755 0",
		"var/lib/dpkg/":                         "755 0",
		"var/lib/dpkg/status.d/":                "755 0",
		"var/lib/dpkg/status.d/ca-certificates": "644 0",
		"var/lib/dpkg/status.d/ipmitool":        "644 0",
		"var/lib/holdfast/":                     "700 65532",
	}
	if diff := cmp.Diff(want, list); diff != "" {
		t.Errorf("files for %s (-want +got):\n%s", arch, diff)
	}
	for name, want := range map[string]string{
		"usr/bin/holdfast": "binary for " + arch,
		rootsFile:          "./usr/share/a.crt\n./usr/share/b.crt\n",
	} {
		if got := bodies[name]; got != want {
			t.Errorf("%s for %s has %q, want %q", name, arch, got, want)
		}
	}
}

// TestAgent checks that the image of the agent has roots of TLS, and no program but the agent.
func TestAgent(t *testing.T) {
	file, _ := build(t, "holdfast-agent")
	_, index := open(t, file)
	list, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	img, err := index.Image(list.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	modes, _ := files(t, img)
	for name, want := range map[string]bool{
		"usr/bin/holdfast-agent": true, rootsFile: true, "var/lib/holdfast-agent/": true, "usr/bin/ipmitool": false,
	} {
		if _, got := modes[name]; got != want {
			t.Errorf("the image has %s: %t, want %t", name, got, want)
		}
	}
}

func TestWriteRefusesAnotherName(t *testing.T) {
	_, err := Write(Config{Name: "other", At: at}, filepath.Join(t.TempDir(), "image.tar"))
	if err == nil || !strings.Contains(err.Error(), "want holdfast or holdfast-agent") {
		t.Errorf("Write of another binary = %v, want an error with the names", err)
	}
}

// files returns mode and owner of all files of an image, and the content of files.
func files(t *testing.T, img v1.Image) (list, bodies map[string]string) {
	t.Helper()
	list, bodies = map[string]string{}, map[string]string{}
	r := mutate.Extract(img)
	defer r.Close()
	for in := tar.NewReader(r); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return list, bodies
		}
		if err != nil {
			t.Fatalf("read a layer: %v", err)
		}
		name := h.Name
		if h.Typeflag == tar.TypeDir {
			name = strings.TrimSuffix(name, "/") + "/"
		}
		list[name] = fmt.Sprintf("%o %d", h.Mode, h.Uid)
		body, err := io.ReadAll(in)
		if err != nil {
			t.Fatalf("read %s: %v", name, err)
		}
		bodies[name] = string(body)
	}
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
