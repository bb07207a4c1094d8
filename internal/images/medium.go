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

// A boot medium is the disk of the image fsm.MediumImage (make netboot) with a kernel command line
// written into it. The command line contains the URL of the peers and the token of the install
// session. The medium is generated on read, so a BMC can read it in any order and from any peer.

// The area for the command line in a medium (tools/netboot, blank).
const (
	blankMark = "@HOLDFAST-BOOT-PARAMETERS@"
	blankSize = 1024
	// mediumMACs is how many of the machine's addresses are on the command line.
	mediumMACs = 16
)

// serveMedium serves the boot medium with a secret in its URL, as long as its install
// session waits for the machine to boot.
func (d *Depot) serveMedium(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	gone := func() {
		http.Error(w, "there is no such boot medium, or its install has ended", http.StatusNotFound)
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
		// The medium gets the same command line as a boot from the network.
		installer, _ := v.ImageFor("installer", arch)
		more = strings.Join(strings.Fields(installer.GetCmdline()), " ")
		image, _ := v.ImageFor(fsm.MediumImage, arch)
		return image.GetDisk(), image.GetDisk() != nil
	})
	switch {
	case install == nil:
		gone()
		return
	case !ok:
		name := fsm.ImageName(fsm.MediumImage, arch)
		message := fmt.Sprintf(
			"there is no image %s with a disk: add one (holdfast image add %s --arch %s --disk installer.iso)",
			name, name, arch)
		http.Error(w, message, http.StatusNotFound)
		return
	}
	line := "holdfast.url=" + install.GetMediumServer() + " holdfast.token=" + token
	if macs := install.GetMacs(); len(macs) > 0 {
		// The firmware does not tell which card is the machine's: a BMC's own one also has a link.
		line += " holdfast.macs=" + strings.Join(macs[:min(len(macs), mediumMACs)], ",")
	}
	if more != "" {
		line += " " + more
	}
	if len(line) > blankSize {
		message := fmt.Sprintf("the command line of the installer has %d characters, and the medium has room for %d: "+
			"shorten that of the image installer", len(line), blankSize)
		http.Error(w, message, http.StatusInternalServerError)
		return
	}
	d.serveContent(w, r, f, func(open *os.File) (io.ReadSeeker, error) { return d.filled(open, f.GetSha256(), line) })
}

// filled returns a medium with line written into its parameter areas.
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
		d.blanks = map[string][]int64{sum: at} // only the medium in use is remembered
		d.mu.Unlock()
	}
	if len(at) == 0 {
		return nil, errors.New("the disk of image " + fsm.MediumImage + " is not a boot medium: " +
			"it has no room for parameters (make netboot creates bin/netboot/installer.iso)")
	}
	st, err := open.Stat()
	if err != nil {
		return nil, err
	}
	text := []byte(line + strings.Repeat(" ", blankSize-len(line)))
	return io.NewSectionReader(&overlay{open, at, text}, 0, st.Size()), nil
}

// blanks returns the offsets of the parameter areas in a medium.
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
			return nil, fmt.Errorf("find the parameter area of a boot medium: %w", err)
		}
	}
}

// overlay is a ReaderAt that replaces the bytes at some offsets with text.
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
