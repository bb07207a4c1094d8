package images

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers"
)

// A boot medium is the disk of the image "installer-iso" with the kernel's command line written
// into it: which peer to ask, and the token of the install session. It is made as it is read, so
// that a BMC may read it in any order, and from any peer.

// mediumImage is the image whose disk is the medium (make netboot).
const mediumImage = "installer-iso"

// The room in a medium for words of the command line (tools/netboot, blank).
const (
	blankMark = "@HOLDFAST-BOOT-PARAMETERS@"
	blankSize = 1024
)

// serveMedium serves the boot medium of a secret, as long as its session waits for the machine to
// boot.
func (d *Depot) serveMedium(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	gone := func() {
		http.Error(w, "there is no such boot medium, or its install is over", http.StatusNotFound)
	}
	secret, ok := providers.MediumSecret(r.URL.Path)
	if !ok {
		gone()
		return
	}
	token, sum := providers.MediumToken(secret)
	var install *holdfastv1.Install
	more, arch := "", ""
	f, ok := d.find(r.Context(), func(v *fsm.View) (*holdfastv1.Image_File, bool) {
		i, err := v.InstallByToken(sum)
		if err != nil || !fsm.InstallBoots(i) {
			return nil, false
		}
		install = i
		m, _ := v.Machine(i.GetMachineId())
		arch = fsm.MachineArch("", m)
		installer, _ := v.ImageFor("installer", arch) // what its kernel is told when it boots from the network, it is told here too
		more = strings.Join(strings.Fields(installer.GetCmdline()), " ")
		image, _ := v.ImageFor(mediumImage, arch)
		return image.GetDisk(), image.GetDisk() != nil
	})
	switch {
	case install == nil:
		gone()
		return
	case !ok:
		name := fsm.ImageName(mediumImage, arch)
		http.Error(w, "there is no image "+name+" with a disk: add one (holdfast image add "+name+" --arch "+arch+" --disk installer.iso)", http.StatusNotFound)
		return
	}
	line := "holdfast.url=" + install.GetMediumServer() + " holdfast.token=" + token
	if more != "" {
		line += " " + more
	}
	if len(line) > blankSize {
		http.Error(w, fmt.Sprintf("the command line of the installer has %d characters, and a medium has room for %d: shorten that of the image installer", len(line), blankSize), http.StatusInternalServerError)
		return
	}
	d.hand(w, r, f, func(open *os.File) (io.ReadSeeker, error) { return d.filled(open, f.GetSha256(), line) })
}

// filled returns a medium with a line in the places that have room for it.
func (d *Depot) filled(open *os.File, sum, line string) (io.ReadSeeker, error) {
	d.mu.Lock()
	at, known := d.blanks[sum]
	d.mu.Unlock()
	if !known {
		var err error
		if at, err = blanks(open); err != nil {
			return nil, err
		}
		d.mu.Lock()
		d.blanks = map[string][]int64{sum: at} // the last one is the one that is in use
		d.mu.Unlock()
	}
	if len(at) == 0 {
		return nil, errors.New("the disk of image " + mediumImage + " is no boot medium: there is no room for parameters in it (make netboot makes bin/netboot/installer.iso)")
	}
	st, err := open.Stat()
	if err != nil {
		return nil, err
	}
	return io.NewSectionReader(&overlay{open, at, []byte(line + strings.Repeat(" ", blankSize-len(line)))}, 0, st.Size()), nil
}

// blanks finds where a medium has room.
func blanks(r io.ReaderAt) ([]int64, error) {
	blank := []byte(blankMark + strings.Repeat("@", blankSize-len(blankMark)))
	var at []int64
	buf := make([]byte, 1<<20)
	for off := int64(0); ; off += int64(len(buf) - len(blank) + 1) {
		n, err := r.ReadAt(buf, off)
		for from := 0; ; {
			i := bytes.Index(buf[from:n], blank)
			if i < 0 {
				break
			}
			at = append(at, off+int64(from+i))
			from += i + len(blank)
		}
		switch {
		case errors.Is(err, io.EOF):
			return at, nil
		case err != nil:
			return nil, fmt.Errorf("look for the room in a boot medium: %w", err)
		}
	}
}

// overlay shows text in some places of what it reads.
type overlay struct {
	r    io.ReaderAt
	at   []int64
	text []byte
}

func (o *overlay) ReadAt(p []byte, off int64) (int, error) {
	n, err := o.r.ReadAt(p, off)
	for _, at := range o.at {
		from, to := max(at, off), min(at+int64(len(o.text)), off+int64(n))
		if from < to {
			copy(p[from-off:to-off], o.text[from-at:])
		}
	}
	return n, err
}
