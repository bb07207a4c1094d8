package fsm

import (
	"cmp"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// ReasonImageArch refuses an install of an image that the machine cannot run.
const ReasonImageArch = "IMAGE_ARCH"

// ArchOf returns the architecture that a name stands for, as images have it: amd64 or arm64. It
// returns "" if it is neither. The names are those of agents (uname), of the node API and of iPXE,
// whose programs for BIOS are i386 on every PC.
func ArchOf(name string) string {
	switch name {
	case "amd64", "x86_64", "i386":
		return "amd64"
	case "arm64", "aarch64":
		return "arm64"
	}
	return ""
}

// MachineArch returns the architecture of a machine: as it asks for its boot script, else as its
// node has it, else amd64.
func MachineArch(asks string, m *holdfastv1.Machine) string {
	return cmp.Or(ArchOf(asks), ArchOf(m.GetNode().GetArch()), "amd64")
}

// ImageName returns the name that an image of an architecture has beside the one for amd64:
// installer-arm64.
func ImageName(name, arch string) string {
	if arch == "amd64" {
		return name
	}
	return name + "-" + arch
}

// ImageFor returns the image of a name for an architecture: the one whose name ends with it, else
// the one of the plain name if that is its architecture.
func (s *state) ImageFor(name, arch string) (*holdfastv1.Image, bool) {
	if i, ok := s.images.get(ImageName(name, arch)); ok && i.GetArch() == arch {
		return i, true
	}
	if i, ok := s.images.get(name); ok && i.GetArch() == arch {
		return i, true
	}
	return nil, false
}

// checkImageArch refuses a run that would write an image of one architecture to a machine of
// another. What is not known of either is no reason.
func (t *tx) checkImageArch(m *holdfastv1.Machine, plan *holdfastv1.Plan, run *holdfastv1.Run) *Error {
	arch := ArchOf(m.GetNode().GetArch())
	if arch == "" || !t.has(Level2) {
		return nil
	}
	for _, s := range plan.GetSteps() {
		if s.GetRepave() == nil {
			continue
		}
		name := ImageOf(s.GetRepave(), run, m)
		if i, ok := t.images.get(name); ok && i.GetDisk() != nil && i.GetArch() != arch {
			return refuse(FailedPrecondition, ReasonImageArch, "step %q of plan %q installs image %q, which is for %s, and machine %q is %s: name an image for %s",
				s.GetName(), plan.GetPlanId(), name, i.GetArch(), m.GetMachineId(), arch, arch).with("image", name).with("machine_id", m.GetMachineId())
		}
	}
	return nil
}
