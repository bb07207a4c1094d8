package installer

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/agent/installer/image"
	"github.com/holdfast-metal/holdfast/agent/installer/installtest"
)

// unpacking is a machine that accepts root file systems.
type unpacking struct {
	*machine
	cannot error
	fails  error
	names  []string // of entries
}

func (u *unpacking) CanUnpack(string) error { return u.cannot }
func (u *unpacking) Unpack(_ context.Context, disk string, archive io.Reader) error {
	if !bytes.Equal(u.media[disk].b[:image.HeadSize], make([]byte, image.HeadSize)) {
		return errors.New("boot sectors still exist")
	}
	for r := tar.NewReader(archive); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return u.fails
		}
		if err != nil {
			return &image.ContentError{What: "in it", Err: err}
		}
		u.names = append(u.names, h.Name)
	}
}

// A tar is streamed to the machine, also over a network that breaks. An impossible one is refused
// before any write, and a disk with a partial one is never finished.
func TestInstallTar(t *testing.T) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	big := bytes.Repeat([]byte("contents "), 100000)
	for _, name := range []string{"etc/os-release", "usr/bin/program"} {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(big))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(big); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name    string
		change  func(*installtest.Peer, *unpacking)
		want    string // empty: success
		written bool
	}{
		{"original archive", nil, "", true},
		{"wiped before", func(p *installtest.Peer, _ *unpacking) { p.Order["wipe"] = true }, "", true},
		{"broken network", func(p *installtest.Peer, _ *unpacking) { p.Cuts, p.CutAt = 1, len(p.Image)/2 }, "",
			true},
		{"a machine without mke2fs",
			func(_ *installtest.Peer, u *unpacking) { u.cannot = errors.New("there is no mke2fs here") },
			"unpack image debian-13, which is TAR: there is no mke2fs here: nothing was written", false},
		{"no tar", func(p *installtest.Peer, _ *unpacking) {
			p.Image = bytes.Repeat([]byte("x"), 1<<17)
			p.Order = p.Standard("debian-13", "NONE", "")
			p.Order["image"].(map[string]any)["format"] = "TAR"
		}, "is it really a TAR", false},
		{"a wrong checksum", func(p *installtest.Peer, _ *unpacking) {
			p.Order["image"].(map[string]any)["sha256"] = strings.Repeat("0", 64)
		}, "checksum of image debian-13 is", true},
		{"a full disk", func(_ *installtest.Peer, u *unpacking) { u.fails = errors.New("the root file system is full") },
			"the root file system is full", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, m := &installtest.Peer{Image: archive.Bytes()}, &unpacking{machine: newMachine("A")}
			p.Order = p.Standard("debian-13", "NONE", "")
			p.Order["image"].(map[string]any)["format"] = "TAR"
			if tt.change != nil {
				tt.change(p, m)
			}
			err := run(t, p, m)
			got := p.Last()
			if written := m.media["sda"].writes > 0; written != tt.written {
				t.Errorf("got written %v, want %v", written, tt.written)
			}
			if tt.want != "" {
				if err == nil || got.Status != "failed" || !strings.Contains(got.Error, tt.want) || len(m.finished) > 0 {
					t.Errorf("got %+v, %v, finished %v\nwant %q", got, err, m.finished, tt.want)
				}
				return
			}
			if err != nil || got.Status != "complete" {
				t.Fatalf("got %+v, %v", got, err)
			}
			if diff := cmp.Diff([]string{"etc/os-release", "usr/bin/program"}, m.names); diff != "" || len(m.finished) != 1 {
				t.Errorf("finished %v; entries (-want +got):\n%s", m.finished, diff)
			}
		})
	}
}
