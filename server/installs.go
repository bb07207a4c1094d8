package server

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/auth"
)

// The images that machines boot from the network.
const (
	installerImage = "installer" // writes another one to the disk
	inventoryImage = "inventory" // tells what a machine is that nobody knew
)

// maxLogPart is how many bytes of an installer's log are taken at once.
const maxLogPart = 256 << 10

// installService is InstallService: machines that boot from the network, and what installs them.
type installService struct {
	holdfastv1.UnimplementedInstallServiceServer
	*Server
}

// GetInstall gets the install session of a machine.
func (s *installService) GetInstall(ctx context.Context, r *holdfastv1.GetInstallRequest) (*holdfastv1.Install, error) {
	if err := required("machine_id", r.GetMachineId()); err != nil {
		return nil, err
	}
	v, err := s.node.View(ctx)
	if err != nil {
		return nil, err
	}
	i, ok := v.Install(r.GetMachineId())
	m, known := v.Machine(r.GetMachineId())
	if !ok || !known || !visible(auth.From(ctx), m) {
		return nil, notFound(fsm.ReasonNoInstall, "install", r.GetMachineId())
	}
	return i, nil
}

// ListInstalls lists install sessions by machine.
func (s *installService) ListInstalls(ctx context.Context, r *holdfastv1.ListInstallsRequest) (*holdfastv1.ListInstallsResponse, error) {
	p, err := newPage(r.GetPageSize(), r.GetPageToken(), "installs", strconv.FormatBool(r.GetAll()))
	if err != nil {
		return nil, err
	}
	v, err := s.node.View(ctx)
	if err != nil {
		return nil, err
	}
	caller, resp := auth.From(ctx), &holdfastv1.ListInstallsResponse{}
	resp.Installs, resp.NextPageToken, err = collect(ctx, p, keyed(v.Installs(p.after), (*holdfastv1.Install).GetMachineId), func(i *holdfastv1.Install) bool {
		m, known := v.Machine(i.GetMachineId())
		return (r.GetAll() || fsm.InstallOpen(i)) && known && visible(caller, m)
	})
	return resp, err
}

// bootTime is how long a peer asks the others what a machine is to boot, before it answers by what
// it knows itself.
const bootTime = 2 * time.Second

// LookUpBoot reports what a machine is to boot. A peer that knows no leader does not let it
// install: it waits if it may be about to, and else boots its disk.
func (s *installService) LookUpBoot(ctx context.Context, r *holdfastv1.BootMachineRequest) (*holdfastv1.BootMachineResponse, error) {
	if err := required("mac", r.GetMac()); err != nil {
		return nil, err
	}
	// The call is of this peer: it is here that it is found out whether there is a leader, and
	// firmware does not wait for long.
	asks, cancel := context.WithTimeout(cluster.WithConsistency(ctx, cluster.Consistency{}), bootTime)
	defer cancel()
	if v, err := s.node.View(asks); err == nil {
		return s.boots(v, r), nil
	}
	answer := s.boots(s.state.View(), r)
	if answer.GetAction() != holdfastv1.BootMachineResponse_DISK {
		peers := answer.GetHttpAddrs()
		answer = waits(answer.GetMachineId(), answer.GetRunId(), "the cluster has no leader now")
		answer.HttpAddrs = peers
	}
	answer.Unknown = false
	return answer, nil
}

// boots reports what a machine is to boot by a state, and whom else it can ask.
func (s *installService) boots(v *fsm.View, r *holdfastv1.BootMachineRequest) *holdfastv1.BootMachineResponse {
	answer := s.bootsBy(v, r)
	answer.HttpAddrs = httpAddrs(v)
	return answer
}

func httpAddrs(v *fsm.View) (all []string) {
	for _, p := range v.Peers() {
		all = append(all, p.GetHttpAddr())
	}
	return all
}

func (s *installService) bootsBy(v *fsm.View, r *holdfastv1.BootMachineRequest) *holdfastv1.BootMachineResponse {
	m, ok := v.MachineByMAC(r.GetMac())
	if !ok {
		return &holdfastv1.BootMachineResponse{Action: holdfastv1.BootMachineResponse_DISK, Reason: "nobody knows this machine", Unknown: s.cfg.AutoDiscover}
	}
	disk := &holdfastv1.BootMachineResponse{Action: holdfastv1.BootMachineResponse_DISK, MachineId: m.GetMachineId(), Reason: "no run is installing it"}
	run, active := v.Run(m.GetStatus().GetActiveRunId())
	i, _ := v.Install(m.GetMachineId())
	now := v.Now() // dates what the installer reported; it stands while nothing is committed
	if wall := time.Now(); wall.After(now) {
		now = wall
	}
	switch {
	case m.GetStatus().GetPhase() == holdfastv1.MachineStatus_RETIRED, m.GetStatus().GetNodeState() == holdfastv1.Node_RETIRED:
		disk.Reason = "it is retired"
		return disk
	case !active && v.Has(fsm.Level2) && fsm.ApprovedPlan(m) != "":
		return approved(v, m)
	case !active || run.GetObserved() || fsm.Ended(run):
		return disk
	case i.GetRunId() == run.GetRunId() && v.Has(fsm.Level2) && fsm.InstallerRuns(i, now):
		return waits(m.GetMachineId(), run.GetRunId(), fmt.Sprintf("its installer is running: a boot script is served again after %s without a report", fsm.InstallerSilence))
	case fsm.InstallOpen(i) && i.GetRunId() == run.GetRunId() && fsm.InstallBoots(i):
		return s.installs(v, m, run, r.GetArch())
	case fsm.InstallOpen(i) && i.GetRunId() == run.GetRunId() && i.GetStage() != holdfastv1.Install_FAILED:
		disk.Reason = "its image is installed"
		return disk
	case willInstall(run):
		return waits(m.GetMachineId(), run.GetRunId(), "run "+run.GetRunId()+" is about to install it")
	}
	return disk
}

func waits(machine, run, why string) *holdfastv1.BootMachineResponse {
	return &holdfastv1.BootMachineResponse{Action: holdfastv1.BootMachineResponse_WAIT, MachineId: machine, RunId: run, Reason: why}
}

// willInstall reports whether the machine of a run has been booted for a step that is next, or at
// work: it waits for its session.
func willInstall(run *holdfastv1.Run) bool {
	at := false
	for _, s := range run.GetSteps() {
		at = at || s.GetName() == run.GetCurrentStep()
		switch {
		case !at:
		case s.GetKind() == "repave":
			return true
		case s.GetKind() != "netboot" && s.GetKind() != "reboot" && s.GetKind() != "power":
			return false
		}
	}
	return false
}

func (s *installService) installs(v *fsm.View, m *holdfastv1.Machine, run *holdfastv1.Run, arch string) *holdfastv1.BootMachineResponse {
	img, why := bootable(v, installerImage, fsm.MachineArch(arch, m))
	if why != "" {
		return waits(m.GetMachineId(), run.GetRunId(), why)
	}
	return &holdfastv1.BootMachineResponse{Action: holdfastv1.BootMachineResponse_INSTALL, MachineId: m.GetMachineId(), RunId: run.GetRunId(), Image: img.GetName(), Cmdline: img.GetCmdline(),
		Reason: "run " + run.GetRunId() + " installs it"}
}

// bootable returns the image of a name that machines of an architecture boot, and why there is none
// if there is none.
func bootable(v *fsm.View, name, arch string) (img *holdfastv1.Image, why string) {
	img, ok := v.ImageFor(name, arch)
	name = fsm.ImageName(name, arch)
	switch {
	case !ok && arch == "amd64":
		return nil, "there is no image named " + name + ": add one (holdfast image add " + name + ")"
	case !ok:
		return nil, "there is no image named " + name + ": add one (holdfast image add " + name + " --arch " + arch + ")"
	case img.GetKernel() == nil || img.GetInitrd() == nil:
		return nil, "the image " + img.GetName() + " has no kernel and initrd: replace it"
	}
	return img, ""
}

// BootMachine returns a machine what it boots, with a token of its session.
func (s *installService) BootMachine(ctx context.Context, r *holdfastv1.BootMachineRequest) (*holdfastv1.BootMachineResponse, error) {
	if err := required("mac", r.GetMac()); err != nil {
		return nil, err
	}
	return again(func() (*holdfastv1.BootMachineResponse, error) {
		v, err := s.node.View(ctx)
		if err != nil {
			return nil, err
		}
		answer := s.boots(v, r)
		c := &internalv1.Command{FeatureLevel: 1, Principal: "netboot"}
		switch {
		case takenOver(v, answer, r):
			return s.refusesTakeover(ctx, answer, r), nil
		case answer.GetUnknown():
			return s.discovers(ctx, v, r)
		case answer.GetAction() == holdfastv1.BootMachineResponse_WAIT && answer.GetRunId() == "":
			return s.startApproved(ctx, v, answer)
		case answer.GetAction() == holdfastv1.BootMachineResponse_INSTALL:
			secret, hash := auth.NewSecret()
			answer.Token = secret
			c.Op = &internalv1.Command_BootInstall{BootInstall: &internalv1.BootInstall{MachineId: answer.GetMachineId(), Sha256: hash, IpAddress: r.GetIpAddress()}}
		case s.lacksInstaller(v, answer, r.GetArch()):
			c.Op = &internalv1.Command_BootInstall{BootInstall: &internalv1.BootInstall{MachineId: answer.GetMachineId(), Note: answer.GetReason()}}
		default:
			return answer, nil
		}
		_, err = apply[*holdfastv1.Install](ctx, s.node, c)
		if refused, ok := errors.AsType[*fsm.Error](err); ok && refused.Reason == fsm.ReasonNoInstall && v.Has(fsm.Level2) {
			peers := answer.GetHttpAddrs()
			answer = waits(answer.GetMachineId(), answer.GetRunId(), refused.Message)
			answer.HttpAddrs, err = peers, nil
		}
		return answer, err
	})
}

// reasonBootTakeover is the reason in the audit trail of a boot script that was refused because
// another machine asked for it.
const reasonBootTakeover = "BOOT_TAKEOVER"

// takenOver reports whether a caller that would be given an install token, or made a machine, has a
// MAC address that is not one of the machine it names.
func takenOver(v *fsm.View, answer *holdfastv1.BootMachineResponse, r *holdfastv1.BootMachineRequest) bool {
	switch {
	case r.GetLinkAddress() == "" || answer.GetAction() == holdfastv1.BootMachineResponse_DISK && !answer.GetUnknown():
		return false
	case answer.GetUnknown():
		named, err := net.ParseMAC(r.GetMac())
		return err != nil || named.String() != r.GetLinkAddress()
	}
	caller, _ := v.MachineByMAC(r.GetLinkAddress())
	return caller.GetMachineId() != answer.GetMachineId()
}

// refusesTakeover records that another machine asked for a boot script. The caller waits, as a
// machine does whose install is not ready.
func (s *installService) refusesTakeover(ctx context.Context, answer *holdfastv1.BootMachineResponse, r *holdfastv1.BootMachineRequest) *holdfastv1.BootMachineResponse {
	s.log.Warn("refused a boot script: the caller has another MAC address than the machine it names", "machine", answer.GetMachineId(), "mac", r.GetMac(),
		"address", r.GetIpAddress(), "link_address", r.GetLinkAddress())
	resource := "nodes/" + r.GetMac()
	if id := answer.GetMachineId(); id != "" {
		resource = "machines/" + id
	}
	s.cfg.Gate.Deny(ctx, "holdfast.v1.InstallService/BootMachine", resource,
		&auth.Error{Code: codes.PermissionDenied, Reason: reasonBootTakeover, Message: "the caller is another machine"})
	return waits(answer.GetMachineId(), answer.GetRunId(), "the boot script is for the machine with MAC address "+r.GetMac()+" only")
}

// lacksInstaller reports whether a machine waits because there is nothing to install it with, and
// its session does not say so yet.
func (s *installService) lacksInstaller(v *fsm.View, answer *holdfastv1.BootMachineResponse, arch string) bool {
	i, ok := v.Install(answer.GetMachineId())
	m, _ := v.Machine(answer.GetMachineId())
	_, why := bootable(v, installerImage, fsm.MachineArch(arch, m))
	return ok && fsm.InstallBoots(i) && answer.GetAction() == holdfastv1.BootMachineResponse_WAIT && why == answer.GetReason() && i.GetNote() != answer.GetReason()
}

// discovers makes a machine of a MAC address that nobody knows. It awaits approval, and boots what
// tells about it, where there is such an image.
func (s *installService) discovers(ctx context.Context, v *fsm.View, r *holdfastv1.BootMachineRequest) (*holdfastv1.BootMachineResponse, error) {
	c := &internalv1.Command{FeatureLevel: 1, Principal: "netboot", Op: &internalv1.Command_ReportNode{ReportNode: &internalv1.ReportNode{
		Report: &holdfastv1.ReportNodeRequest{MacAddress: r.GetMac(), Facts: &holdfastv1.NodeRecord{IpAddress: r.GetIpAddress(), Arch: r.GetArch()}},
		RunId:  "run-" + randomHex(6), MachineId: randomHex(4), Discover: true, DiscoverLimit: s.discoverLimit(),
	}}}
	m, err := apply[*holdfastv1.Machine](ctx, s.node, c)
	if err != nil {
		return nil, err
	}
	answer := &holdfastv1.BootMachineResponse{Action: holdfastv1.BootMachineResponse_DISK, MachineId: m.GetMachineId(), Reason: "it was discovered now and awaits approval", HttpAddrs: httpAddrs(v)}
	if img, why := bootable(v, inventoryImage, fsm.MachineArch(r.GetArch(), m)); why == "" {
		answer.Action, answer.Image, answer.Cmdline = holdfastv1.BootMachineResponse_INVENTORY, img.GetName(), img.GetCmdline()
	}
	return answer, nil
}

// GetWorkOrder reports what the installer is to do.
func (s *installService) GetWorkOrder(ctx context.Context, r *holdfastv1.GetWorkOrderRequest) (*holdfastv1.WorkOrder, error) {
	v, err := s.node.View(ctx)
	if err != nil {
		return nil, err
	}
	i, refusal := v.InstallByToken(tokenSum(r.GetToken()))
	if refusal != nil {
		return nil, refusal
	}
	m, _ := v.Machine(i.GetMachineId())
	run, _ := v.Run(i.GetRunId())
	o := &holdfastv1.WorkOrder{Install: i, Hostname: m.GetMachineId(), MachineSerial: m.GetSpec().GetSerial()}
	if h := m.GetNode().GetHostname(); h != "" {
		o.Hostname = h
	}
	for key := range strings.SplitSeq(run.GetParams()["authorized_keys"], "\n") {
		if key = strings.TrimSpace(key); key != "" {
			o.AuthorizedKeys = append(o.AuthorizedKeys, key)
		}
	}
	o.HttpAddrs = httpAddrs(v)
	if i.GetImage() == "" {
		return o, nil
	}
	img, ok := v.Image(i.GetImage())
	if arch := fsm.ArchOf(m.GetNode().GetArch()); ok && arch != "" && img.GetArch() != arch { // the run began before that was known
		return nil, &fsm.Error{Code: fsm.FailedPrecondition, Reason: fsm.ReasonImageArch,
			Message: "image " + quote(i.GetImage()) + " is for " + img.GetArch() + ", and machine " + quote(m.GetMachineId()) + " is " + arch + ": cancel the run, and name an image for " + arch}
	}
	if !ok || img.GetDisk() == nil {
		return nil, &fsm.Error{Code: fsm.FailedPrecondition, Reason: "IMAGE_MISSING", Message: "there is no image " + quote(i.GetImage()) + " with a disk: add it (holdfast image add), and it goes on"}
	}
	o.ImageSha256, o.ImageSizeBytes = img.GetDisk().GetSha256(), img.GetDisk().GetSizeBytes()
	o.ImageFormat, o.ImageCompression = img.GetFormat().String(), img.GetCompression().String()
	return o, nil
}

// tokenSum returns what is kept of a token.
func tokenSum(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}

// admits refuses a token before anything is proposed: the network is full of old ones.
func (s *installService) admits(ctx context.Context, token string) ([]byte, error) {
	v, err := s.node.View(ctx)
	if err != nil {
		return nil, err
	}
	sum := tokenSum(token)
	if _, refusal := v.InstallByToken(sum); refusal != nil {
		if refusal.Reason == fsm.ReasonInstallTaken {
			machine := refusal.Meta["machine_id"]
			s.log.Warn("refused a second installer in an install session: see who has asked for the machine's boot script", "machine", machine, "address", auth.AddressFrom(ctx))
			s.cfg.Gate.Deny(ctx, "holdfast.v1.InstallService/ReportInstall", "machines/"+machine,
				&auth.Error{Code: codes.PermissionDenied, Reason: refusal.Reason, Message: refusal.Message})
		}
		return nil, refusal
	}
	return sum, nil
}

// ReportInstall takes what an installer says.
func (s *installService) ReportInstall(ctx context.Context, r *holdfastv1.ReportInstallRequest) (*holdfastv1.Install, error) {
	sum, err := s.admits(ctx, r.GetToken())
	if err != nil {
		return nil, err
	}
	said := known(r)
	said.Token = ""
	return apply[*holdfastv1.Install](ctx, s.node, &internalv1.Command{FeatureLevel: 1, Principal: "installer",
		Op: &internalv1.Command_ReportInstall{ReportInstall: &internalv1.ReportInstall{Sha256: sum, Report: said}}})
}

// AppendInstallLog adds to the run's log.
func (s *installService) AppendInstallLog(ctx context.Context, r *holdfastv1.AppendInstallLogRequest) (*holdfastv1.AppendInstallLogResponse, error) {
	sum, err := s.admits(ctx, r.GetToken())
	if err != nil {
		return nil, err
	}
	data := r.GetData()
	i, err := apply[*holdfastv1.Install](ctx, s.node, &internalv1.Command{FeatureLevel: 1, Principal: "installer",
		Op: &internalv1.Command_AppendInstallLog{AppendInstallLog: &internalv1.AppendInstallLog{Sha256: sum, Offset: r.GetOffset(), Data: data[:min(len(data), maxLogPart)]}}})
	if err != nil {
		return nil, err
	}
	return &holdfastv1.AppendInstallLogResponse{Next: i.GetLogBytes()}, nil
}
