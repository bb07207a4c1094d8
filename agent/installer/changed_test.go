package installer

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/agent/installer/installtest"
	"github.com/holdfast-metal/holdfast/agent/installer/peers"
	"github.com/holdfast-metal/holdfast/internal/diskrule"
)

// replugged is a machine whose disks change after the image was unpacked.
type replugged struct {
	*unpacking
	after func(*machine)
}

func (r *replugged) Unpack(ctx context.Context, disk string, archive io.Reader) error {
	err := r.unpacking.Unpack(ctx, disk, archive)
	r.change(r.after)
	return err
}

func (r *replugged) change(how func(*machine)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if how != nil {
		how(r.machine)
	}
}

// Names move to other disks when a controller restarts, or a disk is plugged in. Only a chosen disk
// may be written to.
func TestChangingDisks(t *testing.T) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	if err := errors.Join(w.WriteHeader(&tar.Header{Name: "etc/", Typeflag: tar.TypeDir, Mode: 0o755}),
		w.Close()); err != nil {
		t.Fatal(err)
	}
	other := func(m *machine) { m.disks = []diskrule.Disk{{Name: "sda", Serial: "Z", SizeBytes: diskSize}} }
	more := func(m *machine) {
		m.disks = append(m.disks[:1:1], diskrule.Disk{Name: "sdb", Serial: "Z", SizeBytes: diskSize})
	}
	none := func(m *machine) { m.disks = nil }
	tests := []struct {
		name, format, rule string
		before, after      func(*machine) // before the request of the image; after it was unpacked
		want               string         // empty: success
		written            bool
	}{
		{"name of another disk", "TAR", "", other, nil,
			"nothing was written: the disk rule now selects sda (8 MB, serial Z)", false},
		{"name of another disk, by the rule", "TAR", "serial=A", other, nil, "its serial is not A", false},
		{"a disk image", "RAW", "", other, nil, "nothing was written: the disk rule now selects sda (8 MB, serial Z)", false},
		{"rule that now selects two disks", "TAR", "", more, nil, "2 disks qualify", false},
		{"another disk that the rule excludes", "TAR", "serial=A", more, nil, "", true},
		{"name of another disk at the end", "TAR", "", nil, other,
			"finish sda (8 MB, serial A): that is another disk now: sda (8 MB, serial Z)", true},
		{"disk gone at the end", "TAR", "", nil, none, "finish sda (8 MB, serial A): the disk is gone", true},
		{"another disk at the end", "TAR", "", nil, more, "", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			image := archive.Bytes()
			if tt.format == "RAW" {
				image = append([]byte("XFSB"), make([]byte, 4096)...)
			}
			p, m := &installtest.Peer{Image: image}, &replugged{&unpacking{machine: newMachine("A")}, tt.after}
			p.Order = p.Standard("debian-13", "NONE", tt.rule)
			p.Order["image"].(map[string]any)["format"] = tt.format
			p.Refuse = func(r *http.Request) int {
				if strings.HasPrefix(r.URL.Path, "/images/") {
					m.change(tt.before)
				}
				return 0
			}
			err := run(t, p, m)
			got := p.Last()
			if m.untouched() == tt.written {
				t.Errorf("got written %v, want %v", !m.untouched(), tt.written)
			}
			if tt.want == "" {
				if err != nil || cmp.Diff([]string{"sda"}, m.finished) != "" {
					t.Errorf("got %+v, %v, finished %v", got, err, m.finished)
				}
				return
			}
			if err == nil || got.Status != peers.Failed || !strings.Contains(got.Error, tt.want) || len(m.finished) > 0 {
				t.Errorf("got %+v, %v, finished %v\nwant %q", got, err, m.finished, tt.want)
			}
		})
	}
}

// large is a machine with disks of 4096-byte sectors.
type large struct{ *machine }

func (l large) Open(name string) (Disk, error) { return sectored{l.media[name]}, nil }

type sectored struct{ *memory }

func (sectored) SectorSize() int { return 4096 }

// An image for other sectors is refused before the old data is lost.
func TestInstallOnLargeSectors(t *testing.T) {
	b := plainImage()
	copy(b[512:], "EFI PART")
	p, m := &installtest.Peer{Image: b}, large{newMachine("A")}
	p.Order = p.Standard("debian-13", "NONE", "")
	p.Order["wipe"] = true
	const want = "its partition table is for disks with sectors of 512 bytes, and this disk has sectors of 4096: " +
		"nothing was written"
	if err := run(t, p, m); err == nil || !strings.Contains(p.Last().Error, want) {
		t.Errorf("got %v, want %q", err, want)
	}
	if !m.untouched() {
		t.Error("got a write, want none")
	}
}
