package installs

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-metal/holdfast/cluster/call"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/holdfast/stepkind"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/internal/request"
)

// The names of images that machines boot from the network.
const (
	InstallerImage = "installer" // writes another image to the disk
	inventoryImage = "inventory" // reports the hardware of a machine that was unknown
)

// bootTime is the time limit of reading the current state for a boot. After it a peer answers
// from its own copy.
const bootTime = 2 * time.Second

// LookUpBoot returns the boot decision for a machine. Without a leader no install starts: the
// machine waits if it may be about to install, otherwise it boots its disk.
func (s *Service) LookUpBoot(
	ctx context.Context, r *holdfastv1.BootMachineRequest,
) (*holdfastv1.BootMachineResponse, error) {
	if err := request.Required("mac", r.GetMac()); err != nil {
		return nil, err
	}
	// This peer serves the call itself. It must detect here that there is no leader,
	// because firmware does not wait for long.
	fresh, cancel := context.WithTimeout(call.WithConsistency(ctx, call.Consistency{}), bootTime)
	defer cancel()
	if v, err := s.Cluster.View(fresh); err == nil {
		return hide(v, s.bootAnswer(v, r), r), nil
	}
	v := s.State.View()
	answer := s.bootAnswer(v, r)
	if answer.GetAction() != holdfastv1.BootMachineResponse_DISK {
		peers := answer.GetHttpAddrs()
		answer = waitAnswer(answer.GetMachineId(), answer.GetRunId(), "the cluster has no leader now")
		answer.HttpAddrs = peers
	}
	answer.Unknown = false
	return hide(v, answer, r), nil
}

// bootAnswer returns the boot decision for a machine according to a view, and the addresses
// of all peers.
func (s *Service) bootAnswer(v *fsm.View, r *holdfastv1.BootMachineRequest) *holdfastv1.BootMachineResponse {
	answer := s.machineAnswer(v, r)
	answer.HttpAddrs = httpAddrs(v)
	return answer
}

// httpAddrs returns the HTTP addresses of all peers.
func httpAddrs(v *fsm.View) (all []string) {
	for _, p := range v.Peers() {
		all = append(all, p.GetHttpAddr())
	}
	return all
}

// machineAnswer is bootAnswer without the addresses.
func (s *Service) machineAnswer(v *fsm.View, r *holdfastv1.BootMachineRequest) *holdfastv1.BootMachineResponse {
	m, ok := v.MachineByMAC(r.GetMac())
	if !ok {
		_, usable := fsm.MAC(r.GetMac())
		return &holdfastv1.BootMachineResponse{
			Action:  holdfastv1.BootMachineResponse_DISK,
			Reason:  "the machine is unknown",
			Unknown: s.discovery.On && usable,
		}
	}
	disk := &holdfastv1.BootMachineResponse{
		Action:    holdfastv1.BootMachineResponse_DISK,
		MachineId: m.GetMachineId(),
		Reason:    "no run is installing it",
	}
	run, active := v.Run(m.GetStatus().GetActiveRunId())
	i, _ := v.Install(m.GetMachineId())
	now := v.Now() // the clock of the installer's reports; it does not advance without commits
	if wall := s.Time(); wall.After(now) {
		now = wall
	}
	conflict := v.ConflictOf(m)
	switch {
	case conflict != "":
		disk.Reason = "it may be another machine: " + conflict
		return disk
	case m.GetStatus().GetPhase() == holdfastv1.MachineStatus_RETIRED,
		m.GetStatus().GetNodeState() == holdfastv1.Node_RETIRED:
		disk.Reason = "it is retired"
		return disk
	case !active && fsm.ApprovedPlan(m) != "":
		return approved(v, m)
	case !active || run.GetObserved() || fsm.Ended(run):
		return disk
	case i.GetRunId() == run.GetRunId() && fsm.InstallerRuns(i, now):
		reason := fmt.Sprintf("its installer is running: a boot script is served again after %s without a report",
			fsm.InstallerSilence)
		return waitAnswer(m.GetMachineId(), run.GetRunId(), reason)
	case fsm.InstallOpen(i) && i.GetRunId() == run.GetRunId() && fsm.InstallBoots(i):
		return s.installAnswer(v, m, run, r.GetArch())
	case fsm.InstallOpen(i) && i.GetRunId() == run.GetRunId() && i.GetStage() != holdfastv1.Install_FAILED:
		disk.Reason = "its image is installed"
		return disk
	case willInstall(run):
		return waitAnswer(m.GetMachineId(), run.GetRunId(), "run "+run.GetRunId()+" is about to install it")
	}
	return disk
}

// waitAnswer returns the decision that a machine waits and retries.
func waitAnswer(machine, run, reason string) *holdfastv1.BootMachineResponse {
	return &holdfastv1.BootMachineResponse{
		Action:    holdfastv1.BootMachineResponse_WAIT,
		MachineId: machine,
		RunId:     run,
		Reason:    reason,
	}
}

// willInstall reports whether a run has booted its machine for an installation. The
// machine then waits for its install session.
func willInstall(run *holdfastv1.Run) bool {
	at := false
	for _, s := range run.GetSteps() {
		at = at || s.GetName() == run.GetCurrentStep()
		switch {
		case !at:
		case s.GetKind() == "repave":
			return true
		case !stepkind.Named(s.GetKind()).GetBoots():
			return false
		}
	}
	return false
}

// installAnswer returns the decision that a machine boots the installer, or waits for its
// image.
func (s *Service) installAnswer(
	v *fsm.View, m *holdfastv1.Machine, run *holdfastv1.Run, arch string,
) *holdfastv1.BootMachineResponse {
	img, reason := Bootable(v, InstallerImage, fsm.MachineArch(arch, m))
	if reason != "" {
		return waitAnswer(m.GetMachineId(), run.GetRunId(), reason)
	}
	return &holdfastv1.BootMachineResponse{
		Action:    holdfastv1.BootMachineResponse_INSTALL,
		MachineId: m.GetMachineId(),
		RunId:     run.GetRunId(),
		Image:     img.GetName(),
		Cmdline:   img.GetCmdline(),
		Reason:    "run " + run.GetRunId() + " installs it",
	}
}

// Bootable returns the image with a name for an architecture, or the reason if no machine can boot
// it.
func Bootable(v *fsm.View, name, arch string) (img *holdfastv1.Image, reason string) {
	img, ok := v.ImageFor(name, arch)
	name = fsm.ImageName(name, arch)
	switch {
	case !ok && arch == "amd64":
		return nil, "there is no image named " + name + ": add one (holdfast image add " + name + ")"
	case !ok:
		return nil, "there is no image named " + name +
			": add one (holdfast image add " + name + " --arch " + arch + ")"
	case img.GetKernel() == nil || img.GetInitrd() == nil:
		return nil, "the image " + img.GetName() + " has no kernel and initrd: replace it"
	}
	return img, ""
}
