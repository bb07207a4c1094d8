// Package image brings the bytes of an image from the peers to a disk.
//
// It owns the download, which goes on where a dropped connection left it, with any peer; the
// checksum over the bytes as they are sent; the decompression; and the order of the writes: the
// start of the disk is written last, when the checksum is known to be right, so that a disk that
// was written half-way, or with the wrong bytes, never boots. It does not choose the disk and does
// not know what is in the image, beyond how large a disk its partition table wants.
package image

import (
	"fmt"
	"io"

	"github.com/holdfast-metal/holdfast/internal/installer/diskrule"
)

// HeadSize is how much of the disk's start is held back until the checksum is known, in bytes. Boot
// code and partition tables lie in it.
const HeadSize = 1 << 20

// Disk is what is written to. A file will do.
type Disk interface {
	io.ReaderAt
	io.WriterAt
	Sync() error
}

// ChecksumError means that the bytes that came are not those that were ordered.
type ChecksumError struct {
	Image, Got, Want string
}

// Error implements error.
func (e *ChecksumError) Error() string {
	return fmt.Sprintf("checksum of image %s is %s, want %s: the image on the peers is damaged or was replaced: delete it and add it again", e.Image, e.Got, e.Want)
}

// TooSmallError means that the image does not fit.
type TooSmallError struct {
	Image      string
	Need, Have uint64 // bytes
	AtLeast    bool   // Need is what was seen so far
	Wrote      bool   // something was written before it was known
}

// Error implements error.
func (e *TooSmallError) Error() string {
	atLeast, wrote := "", "nothing was written"
	if e.AtLeast {
		atLeast = "at least "
	}
	if e.Wrote {
		wrote = "the disk was written up to its end and does not boot"
	}
	return fmt.Sprintf("image %s needs a disk of %s%d bytes (%s) and this one has %d (%s): %s: choose another disk by its rule, or a smaller image",
		e.Image, atLeast, e.Need, diskrule.Size(e.Need), e.Have, diskrule.Size(e.Have), wrote)
}
