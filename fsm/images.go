package fsm

import (
	"slices"

	"iter"

	"github.com/holdfast-metal/holdfast/fsm/internal/images"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// ImageFiles returns the files that an image has, with their part: disk, kernel or initrd.
func ImageFiles(i *holdfastv1.Image) iter.Seq2[string, *holdfastv1.Image_File] {
	return images.Files(i)
}

// ImageFile returns one file of an image, or nil.
func ImageFile(i *holdfastv1.Image, part string) *holdfastv1.Image_File { return images.File(i, part) }

// CheckReplaceImage returns an error if an image may not be replaced.
func CheckReplaceImage(old *holdfastv1.Image, replace bool) *Error {
	return images.CheckReplace(old, replace)
}

// NormalImage returns a copy of an image with its defaults, and without the fields that the
// server sets.
func NormalImage(i *holdfastv1.Image) *holdfastv1.Image { return images.Normal(i) }

// SameImage reports whether two images are equal except for the fields that the server sets.
func SameImage(a, b *holdfastv1.Image) bool { return images.Same(a, b) }

// ImageOf returns the name of the image that a step of a run installs: its own, else that of the
// run. A run that was not started has the image that it would have on the machine.
func ImageOf(s *holdfastv1.RepaveImage, run *holdfastv1.Run, m *holdfastv1.Machine) string {
	return images.Of(s, run, m)
}

// ArchOf returns the architecture of a name, as images have it: amd64 or arm64. It returns ""
// for other names. It accepts the names of agents (uname), of the node API and of iPXE, whose
// BIOS builds report i386 on every PC.
func ArchOf(name string) string { return images.ArchOf(name) }

// MachineArch returns the architecture of a machine: from its request for a boot script, else
// from its node, else amd64.
func MachineArch(asks string, m *holdfastv1.Machine) string { return images.MachineArch(asks, m) }

// MediumImage is the name of the image whose disk is the boot medium of the installer. Peers serve
// it as virtual media, and no machine installs it.
const MediumImage = "installer-iso"

// IsMedium reports whether a name is that of the boot medium, for any architecture.
func IsMedium(name string) bool {
	return slices.ContainsFunc(images.Arches(), func(arch string) bool { return name == ImageName(MediumImage, arch) })
}

// ImageName returns the name of the variant of an image for an architecture, such as
// installer-arm64. The variant for amd64 has the plain name.
func ImageName(name, arch string) string { return images.Name(name, arch) }

// MaxImageFile is the maximum size of a file of an image: 1 TiB.
const MaxImageFile = images.MaxFile

// ValidateImage returns the violations of an image that has its defaults (NormalImage).
func ValidateImage(i *holdfastv1.Image) []FieldViolation { return images.Validate(i) }

// ValidSum reports whether a text is a SHA-256 as images have it: 64 hexadecimal digits in
// lower case.
func ValidSum(s string) bool { return images.ValidSum(s) }
