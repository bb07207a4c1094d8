package installs

import (
	"context"
	"errors"

	"github.com/holdfast-metal/holdfast/cluster/call"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/secrets"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/internal/edge"
	"github.com/holdfast-metal/holdfast/server/internal/request"
)

// BootMachine returns the boot decision for a machine, with a token for its install session.
func (s *Service) BootMachine(
	ctx context.Context, r *holdfastv1.BootMachineRequest,
) (*holdfastv1.BootMachineResponse, error) {
	if err := request.Required("mac", r.GetMac()); err != nil {
		return nil, err
	}
	return edge.RetryAborted(func() (*holdfastv1.BootMachineResponse, error) {
		v, err := s.Cluster.View(ctx)
		if err != nil {
			return nil, err
		}
		answer := s.bootAnswer(v, r)
		c := &internalv1.Command{Principal: "netboot"}
		switch {
		case hidden(v, answer, r):
			return s.refuseBoot(ctx, v, answer, r)
		case answer.GetUnknown():
			return s.discover(ctx, v, r)
		case answer.GetAction() == holdfastv1.BootMachineResponse_WAIT && answer.GetRunId() == "":
			return s.startApproved(ctx, v, answer)
		case answer.GetAction() == holdfastv1.BootMachineResponse_INSTALL:
			secret, hash := secrets.TokenOf(call.Secret(ctx, "holdfast token", secrets.TokenBytes))
			answer.Token = secret
			c.Op = &internalv1.Command_BootInstall{BootInstall: &internalv1.BootInstall{
				MachineId: answer.GetMachineId(), Sha256: hash, IpAddress: r.GetIpAddress(),
			}}
		case s.lacksInstaller(v, answer, r.GetArch()):
			c.Op = &internalv1.Command_BootInstall{BootInstall: &internalv1.BootInstall{
				MachineId: answer.GetMachineId(), Note: answer.GetReason(),
			}}
		default:
			return answer, nil
		}
		_, err = edge.Apply[*holdfastv1.Install](ctx, s.Cluster, c)
		refused, ok := errors.AsType[*fsm.Error](err)
		if ok && refused.Reason == fsm.ReasonNoInstall {
			peers := answer.GetHttpAddrs()
			answer = waitAnswer(answer.GetMachineId(), answer.GetRunId(), refused.Message)
			answer.HttpAddrs, err = peers, nil
		}
		return answer, err
	})
}

// lacksInstaller reports whether a machine waits for a bootable installer image, and its
// session does not contain that note yet.
func (s *Service) lacksInstaller(v *fsm.View, answer *holdfastv1.BootMachineResponse, arch string) bool {
	i, ok := v.Install(answer.GetMachineId())
	m, _ := v.Machine(answer.GetMachineId())
	_, reason := Bootable(v, InstallerImage, fsm.MachineArch(arch, m))
	return ok && fsm.InstallBoots(i) && answer.GetAction() == holdfastv1.BootMachineResponse_WAIT &&
		reason == answer.GetReason() && i.GetNote() != answer.GetReason()
}

// discover creates a machine for an unknown MAC address. The machine awaits approval,
// and boots the inventory image if there is one.
func (s *Service) discover(
	ctx context.Context, v *fsm.View, r *holdfastv1.BootMachineRequest,
) (*holdfastv1.BootMachineResponse, error) {
	facts := &holdfastv1.NodeRecord{IpAddress: r.GetIpAddress(), Arch: r.GetArch()}
	c := &internalv1.Command{Principal: "netboot", Op: &internalv1.Command_ReportNode{
		ReportNode: &internalv1.ReportNode{
			Report:        &holdfastv1.ReportNodeRequest{MacAddress: r.GetMac(), Facts: facts},
			RunId:         "run-" + edge.RandomHex(6),
			MachineId:     edge.RandomHex(4),
			Discover:      true,
			DiscoverLimit: s.discovery.Limit,
		},
	}}
	m, err := edge.Apply[*holdfastv1.Machine](ctx, s.Cluster, c)
	if err != nil {
		return nil, err
	}
	answer := &holdfastv1.BootMachineResponse{
		Action:    holdfastv1.BootMachineResponse_DISK,
		MachineId: m.GetMachineId(),
		Reason:    "it was discovered now and awaits approval",
		HttpAddrs: httpAddrs(v),
	}
	if img, reason := Bootable(v, inventoryImage, fsm.MachineArch(r.GetArch(), m)); reason == "" {
		answer.Action = holdfastv1.BootMachineResponse_INVENTORY
		answer.Image, answer.Cmdline = img.GetName(), img.GetCmdline()
	}
	return answer, nil
}
