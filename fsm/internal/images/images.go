// Package images has the rules of an image's record that depend on it alone: its defaults, its
// files and whether it is valid. It must not know which images are stored or in use.
package images

import (
	"cmp"
	"iter"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Files returns the files that an image has, with their part: disk, kernel or initrd.
func Files(i *holdfastv1.Image) iter.Seq2[string, *holdfastv1.Image_File] {
	return func(yield func(string, *holdfastv1.Image_File) bool) {
		for _, part := range Parts() {
			if f := File(i, part); f != nil && !yield(part, f) {
				return
			}
		}
	}
}

// Parts returns the parts of images, as used in paths.
func Parts() []string { return []string{"disk", "kernel", "initrd"} }

// File returns one file of an image, or nil.
func File(i *holdfastv1.Image, part string) *holdfastv1.Image_File {
	switch part {
	case "disk":
		return i.GetDisk()
	case "kernel":
		return i.GetKernel()
	case "initrd":
		return i.GetInitrd()
	}
	return nil
}

// CheckReplace returns an error if an image may not be replaced.
func CheckReplace(old *holdfastv1.Image, replace bool) *refusal.Error {
	if replace {
		return nil
	}
	return refusal.New(refusal.AlreadyExists, "IMAGE_EXISTS",
		"image %q exists with other content: use a new name, or replace it", old.GetName()).
		With("image", old.GetName())
}

// Normal returns a copy of an image with its defaults, and without the fields that the
// server sets.
func Normal(i *holdfastv1.Image) *holdfastv1.Image {
	i = proto.CloneOf(i)
	if i == nil {
		i = &holdfastv1.Image{}
	}
	if i.GetArch() == "" {
		i.Arch = "amd64"
	}
	if i.GetDisk() != nil && i.GetFormat() == holdfastv1.Image_FORMAT_UNSPECIFIED {
		i.Format = holdfastv1.Image_RAW
	}
	if i.GetDisk() != nil && i.GetCompression() == holdfastv1.Image_COMPRESSION_UNSPECIFIED {
		i.Compression = holdfastv1.Image_NONE
	}
	for _, f := range Files(i) {
		f.Copies = nil
	}
	i.CreatedAt, i.UpdatedAt, i.CreatedBy = nil, nil, ""
	return i
}

// Same reports whether two images are equal except for the fields that the server sets.
func Same(a, b *holdfastv1.Image) bool { return proto.Equal(Normal(a), Normal(b)) }

// Of returns the name of the image that a step of a run installs: its own, else that of the run.
// A run that was not started has the image that it would have on the machine.
func Of(s *holdfastv1.RepaveImage, run *holdfastv1.Run, m *holdfastv1.Machine) string {
	return cmp.Or(s.GetImage(), run.GetImage(), OfRun(run.GetParams(), m))
}

// OfRun returns the name of the image of a run that starts with parameters on a machine: that of
// the parameters, else the machine's label, else "default".
func OfRun(params map[string]string, m *holdfastv1.Machine) string {
	return cmp.Or(params["image"], m.GetLabels()["image"], "default")
}

// ArchOf returns the architecture of a name, as images have it: amd64 or arm64. It returns ""
// for other names. It accepts the names of agents (uname), of the node API and of iPXE, whose
// BIOS builds report i386 on every PC.
func ArchOf(name string) string {
	switch name {
	case "amd64", "x86_64", "i386":
		return "amd64"
	case "arm64", "aarch64":
		return "arm64"
	}
	return ""
}

// MachineArch returns the architecture of a machine: from its request for a boot script, else
// from its node, else amd64.
func MachineArch(asks string, m *holdfastv1.Machine) string {
	return cmp.Or(ArchOf(asks), ArchOf(m.GetNode().GetArch()), "amd64")
}

// Name returns the name of the variant of an image for an architecture, such as
// installer-arm64. The variant for amd64 has the plain name.
func Name(name, arch string) string {
	if arch == "amd64" {
		return name
	}
	return name + "-" + arch
}
