// Package image downloads an image from the peers and writes it to a disk.
//
// A download continues from any peer at the byte where a connection was lost. The checksum
// covers the bytes as they are sent. The start of the disk is written last, after the
// checksum was verified. So a disk that was written only in part, or with wrong bytes,
// never boots. The package does not choose the disk. It knows nothing of the image's
// contents, except the disk size that its partition table needs.
package image

import (
	"fmt"
	"io"

	"github.com/holdfast-metal/holdfast/internal/diskrule"
)

// HeadSize is the size of the disk's start that is held back until the checksum is
// verified, in bytes. It contains boot code and partition tables.
const HeadSize = 1 << 20

// Disk is the destination of an image. A file qualifies.
type Disk interface {
	io.ReaderAt
	io.WriterAt
	Sync() error
}

// ChecksumError means that the received bytes do not have the ordered checksum.
type ChecksumError struct {
	Image, Got, Want string
}

// Error implements error.
func (e *ChecksumError) Error() string {
	return fmt.Sprintf("checksum of image %s is %s, want %s: the image on the peers is damaged or was replaced: "+
		"delete it and add it again", e.Image, e.Got, e.Want)
}

// TooSmallError means that the image does not fit on the disk.
type TooSmallError struct {
	Image      string
	Need, Have uint64 // bytes
	AtLeast    bool   // Need is the size seen so far
	Wrote      bool   // something was written before the size was known
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
	return fmt.Sprintf("image %s needs a disk of %s%d bytes (%s) and this one has %d (%s): %s: "+
		"choose another disk by its rule, or a smaller image",
		e.Image, atLeast, e.Need, diskrule.Size(e.Need), e.Have, diskrule.Size(e.Have), wrote)
}
