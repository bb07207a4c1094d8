package fsm

import (
	"cmp"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// ReasonImageArch is the reason for refusing to install an image of another architecture.
const ReasonImageArch = "IMAGE_ARCH"

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

// ImageName returns the name of the variant of an image for an architecture, such as
// installer-arm64. The variant for amd64 has the plain name.
func ImageName(name, arch string) string {
	if arch == "amd64" {
		return name
	}
	return name + "-" + arch
}

// ImageFor returns the variant of an image for an architecture: the one with the architecture
// in its name, else the one with the plain name if its architecture matches.
func (s *state) ImageFor(name, arch string) (*holdfastv1.Image, bool) {
	if i, ok := s.images.get(ImageName(name, arch)); ok && i.GetArch() == arch {
		return i, true
	}
	if i, ok := s.images.get(name); ok && i.GetArch() == arch {
		return i, true
	}
	return nil, false
}

// checkImageArch refuses a run that would write an image of another architecture to the
// machine. An unknown architecture is accepted.
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
			return refuse(FailedPrecondition, ReasonImageArch,
				"step %q of plan %q installs image %q, which is for %s, and machine %q is %s: name an image for %s",
				s.GetName(), plan.GetPlanId(), name, i.GetArch(), m.GetMachineId(), arch, arch).
				With("image", name).With("machine_id", m.GetMachineId())
		}
	}
	return nil
}
