package installs

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"google.golang.org/grpc/codes"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/internal/edge"
)

// reasonBootTakeover is the reason in the audit trail if a caller that is not known to be the
// machine requested its boot script, work order or session.
const reasonBootTakeover = "BOOT_TAKEOVER"

// strange returns why a caller is not known to be the machine that it names, or "". It matters only
// if the answer would contain an install token or create a machine.
func strange(v *fsm.View, answer *holdfastv1.BootMachineResponse, r *holdfastv1.BootMachineRequest) string {
	if answer.GetAction() == holdfastv1.BootMachineResponse_DISK && !answer.GetUnknown() {
		return ""
	}
	named, _ := fsm.MAC(r.GetMac())
	return foreign(v, r.GetCaller(), answer.GetMachineId(), named)
}

// foreign returns why a caller is not known to be a machine, or "". A machine without an id is that
// with the MAC address mac.
func foreign(v *fsm.View, c *holdfastv1.InstallCaller, machineID, mac string) string {
	if c.GetRouted() {
		return ""
	}
	address := cmp.Or(c.GetAddress(), "an unknown address")
	link := c.GetLinkAddress()
	if link == "" {
		return "the caller at " + address + " is no neighbor of this peer: if machines boot there, name its network in " +
			"--netboot-routed of the peers"
	}
	if machineID == "" && link == mac {
		return ""
	}
	if m, ok := v.MachineByMAC(link); ok && machineID != "" && m.GetMachineId() == machineID {
		return ""
	}
	return "the caller at " + address + " has MAC address " + link + ", which is not one of the machine: if it is, " +
		"record it (holdfast machine update --mac)"
}

// hidden reports whether a caller of BootMachine must learn nothing about the machine, or get
// nothing of it.
func hidden(v *fsm.View, answer *holdfastv1.BootMachineResponse, r *holdfastv1.BootMachineRequest) bool {
	named, _ := fsm.MAC(r.GetMac())
	return r.GetCaller() != nil && foreign(v, r.GetCaller(), answer.GetMachineId(), named) != "" ||
		strange(v, answer, r) != ""
}

// noteStrange begins the note of a session whose boot script was refused to a caller.
const noteStrange = "a boot script was refused: "

// refuseBoot answers a caller that is not known to be the machine. If the machine would install, or
// be created, it records the refusal: in the log, in the audit trail, and once in the session. The
// caller cannot tell, because the answer is the same for all MAC addresses: the disk, from which
// the machine of an undeclared network must still boot.
func (s *Service) refuseBoot(
	ctx context.Context, v *fsm.View, answer *holdfastv1.BootMachineResponse, r *holdfastv1.BootMachineRequest,
) (*holdfastv1.BootMachineResponse, error) {
	named, _ := fsm.MAC(r.GetMac())
	why := foreign(v, r.GetCaller(), answer.GetMachineId(), named)
	disk := &holdfastv1.BootMachineResponse{Action: holdfastv1.BootMachineResponse_DISK, Reason: forMachineOnly(r, why)}
	if strange(v, answer, r) == "" {
		return disk, nil
	}
	resource := "nodes/" + r.GetMac()
	if id := answer.GetMachineId(); id != "" {
		resource = "machines/" + id
	}
	s.deny(ctx, "BootMachine", resource, why, r.GetCaller())
	i, _ := v.Install(answer.GetMachineId())
	if answer.GetAction() == holdfastv1.BootMachineResponse_INSTALL && !strings.HasPrefix(i.GetNote(), noteStrange) {
		_, err := edge.Apply[*holdfastv1.Install](ctx, s.Cluster, &internalv1.Command{Principal: "netboot",
			Op: &internalv1.Command_BootInstall{BootInstall: &internalv1.BootInstall{
				MachineId: answer.GetMachineId(), Note: noteStrange + why,
			}}})
		if refused, ok := errors.AsType[*fsm.Error](err); err != nil && (!ok || refused.Reason != fsm.ReasonNoInstall) {
			return nil, err
		}
	}
	return disk, nil
}

func forMachineOnly(r *holdfastv1.BootMachineRequest, why string) string {
	return "the boot script is for the machine with MAC address " + r.GetMac() + " only: " + why
}

// hide removes from an answer everything about the machine, if the caller is not known to be that
// machine: a MAC address is no secret. The answer is then the same for all MAC addresses: to wait,
// so that BootMachine is called, which records the refusal. Without a caller it is for a peer's own
// use.
func hide(
	v *fsm.View, answer *holdfastv1.BootMachineResponse, r *holdfastv1.BootMachineRequest,
) *holdfastv1.BootMachineResponse {
	named, _ := fsm.MAC(r.GetMac())
	if r.GetCaller() == nil {
		return answer
	}
	why := foreign(v, r.GetCaller(), answer.GetMachineId(), named)
	if why == "" {
		return answer
	}
	return waitAnswer("", "", forMachineOnly(r, why))
}

// checkCaller returns an error if the caller with a session's token is not known to be the machine.
// The token of a boot medium is a secret of the machine's BMC, and its MAC address is not.
func (s *Service) checkCaller(
	ctx context.Context, v *fsm.View, method string, i *holdfastv1.Install, sum []byte, c *holdfastv1.InstallCaller,
) error {
	if string(i.GetMediumSha256()) == string(sum) {
		return nil
	}
	why := foreign(v, c, i.GetMachineId(), "")
	if why == "" {
		return nil
	}
	s.deny(ctx, method, "machines/"+i.GetMachineId(), why, c)
	return &fsm.Error{Code: fsm.PermissionDenied, Reason: reasonBootTakeover, Message: why}
}

// deny records a refusal in the log and in the audit trail.
func (s *Service) deny(ctx context.Context, method, resource, why string, c *holdfastv1.InstallCaller) {
	s.Log.Warn("refused a caller that is not known to be the machine", "call", method, "resource", resource,
		"address", c.GetAddress(), "link_address", c.GetLinkAddress(), "reason", why)
	s.denials.Deny(ctx, "holdfast.v1.InstallService/"+method, resource,
		&auth.Error{Code: codes.PermissionDenied, Reason: reasonBootTakeover, Message: why})
}
