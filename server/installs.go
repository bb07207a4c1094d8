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
	"github.com/holdfast-metal/holdfast/internal/secrets"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/internal/edge"
	"github.com/holdfast-metal/holdfast/server/internal/page"
	"github.com/holdfast-metal/holdfast/server/internal/request"
	"github.com/holdfast-metal/holdfast/server/internal/scope"
)

// The names of images that machines boot from the network.
const (
	installerImage = "installer" // writes another image to the disk
	inventoryImage = "inventory" // reports the hardware of a machine that was unknown
)

// maxLogPart is how many bytes of an installer's log one command appends.
const maxLogPart = 256 << 10

// installService implements InstallService, for machines that boot from the network and
// their installers.
type installService struct {
	holdfastv1.UnimplementedInstallServiceServer
	*Server
}

// GetInstall gets the install session of a machine.
func (s *installService) GetInstall(ctx context.Context, r *holdfastv1.GetInstallRequest) (*holdfastv1.Install, error) {
	if err := request.Required("machine_id", r.GetMachineId()); err != nil {
		return nil, err
	}
	v, err := s.Node.View(ctx)
	if err != nil {
		return nil, err
	}
	i, ok := v.Install(r.GetMachineId())
	m, known := v.Machine(r.GetMachineId())
	if !ok || !known || !scope.Visible(auth.From(ctx), m) {
		return nil, request.NotFound(fsm.ReasonNoInstall, "install", r.GetMachineId())
	}
	return i, nil
}

// ListInstalls lists install sessions by machine.
func (s *installService) ListInstalls(
	ctx context.Context, r *holdfastv1.ListInstallsRequest,
) (*holdfastv1.ListInstallsResponse, error) {
	p, err := page.Parse(r.GetPageSize(), r.GetPageToken(), "installs", strconv.FormatBool(r.GetAll()))
	if err != nil {
		return nil, err
	}
	v, err := s.Node.View(ctx)
	if err != nil {
		return nil, err
	}
	caller, resp := auth.From(ctx), &holdfastv1.ListInstallsResponse{}
	installs := page.Keyed(v.Installs(p.After), (*holdfastv1.Install).GetMachineId)
	resp.Installs, resp.NextPageToken, err = page.Collect(ctx, p, installs, func(i *holdfastv1.Install) bool {
		m, known := v.Machine(i.GetMachineId())
		return (r.GetAll() || fsm.InstallOpen(i)) && known && scope.Visible(caller, m)
	})
	return resp, err
}

// bootTime is how long a peer tries to read the current state for a boot, before it
// answers from its own copy.
const bootTime = 2 * time.Second

// LookUpBoot returns what a machine should boot. Without a leader no install starts: the
// machine waits if it may be about to install, otherwise it boots its disk.
func (s *installService) LookUpBoot(
	ctx context.Context, r *holdfastv1.BootMachineRequest,
) (*holdfastv1.BootMachineResponse, error) {
	if err := request.Required("mac", r.GetMac()); err != nil {
		return nil, err
	}
	// This peer serves the call itself. It must detect here that there is no leader,
	// because firmware does not wait for long.
	asks, cancel := context.WithTimeout(cluster.WithConsistency(ctx, cluster.Consistency{}), bootTime)
	defer cancel()
	if v, err := s.Node.View(asks); err == nil {
		return s.bootAnswer(v, r), nil
	}
	answer := s.bootAnswer(s.State.View(), r)
	if answer.GetAction() != holdfastv1.BootMachineResponse_DISK {
		peers := answer.GetHttpAddrs()
		answer = waitAnswer(answer.GetMachineId(), answer.GetRunId(), "the cluster has no leader now")
		answer.HttpAddrs = peers
	}
	answer.Unknown = false
	return answer, nil
}

// bootAnswer returns what a machine should boot according to a view, and the addresses of all
// peers.
func (s *installService) bootAnswer(v *fsm.View, r *holdfastv1.BootMachineRequest) *holdfastv1.BootMachineResponse {
	answer := s.machineAnswer(v, r)
	answer.HttpAddrs = httpAddrs(v)
	return answer
}

func httpAddrs(v *fsm.View) (all []string) {
	for _, p := range v.Peers() {
		all = append(all, p.GetHttpAddr())
	}
	return all
}

func (s *installService) machineAnswer(v *fsm.View, r *holdfastv1.BootMachineRequest) *holdfastv1.BootMachineResponse {
	m, ok := v.MachineByMAC(r.GetMac())
	if !ok {
		return &holdfastv1.BootMachineResponse{
			Action:  holdfastv1.BootMachineResponse_DISK,
			Reason:  "the machine is unknown",
			Unknown: s.discovery().On,
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
	if wall := time.Now(); wall.After(now) {
		now = wall
	}
	switch {
	case m.GetStatus().GetPhase() == holdfastv1.MachineStatus_RETIRED,
		m.GetStatus().GetNodeState() == holdfastv1.Node_RETIRED:
		disk.Reason = "it is retired"
		return disk
	case !active && v.Has(fsm.Level2) && fsm.ApprovedPlan(m) != "":
		return approved(v, m)
	case !active || run.GetObserved() || fsm.Ended(run):
		return disk
	case i.GetRunId() == run.GetRunId() && v.Has(fsm.Level2) && fsm.InstallerRuns(i, now):
		why := fmt.Sprintf("its installer is running: a boot script is served again after %s without a report",
			fsm.InstallerSilence)
		return waitAnswer(m.GetMachineId(), run.GetRunId(), why)
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

func waitAnswer(machine, run, why string) *holdfastv1.BootMachineResponse {
	return &holdfastv1.BootMachineResponse{
		Action:    holdfastv1.BootMachineResponse_WAIT,
		MachineId: machine,
		RunId:     run,
		Reason:    why,
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
		case s.GetKind() != "netboot" && s.GetKind() != "reboot" && s.GetKind() != "power":
			return false
		}
	}
	return false
}

func (s *installService) installAnswer(
	v *fsm.View, m *holdfastv1.Machine, run *holdfastv1.Run, arch string,
) *holdfastv1.BootMachineResponse {
	img, why := bootable(v, installerImage, fsm.MachineArch(arch, m))
	if why != "" {
		return waitAnswer(m.GetMachineId(), run.GetRunId(), why)
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

// bootable returns the image with a name for an architecture. If no machine can boot it,
// why contains the reason.
func bootable(v *fsm.View, name, arch string) (img *holdfastv1.Image, why string) {
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

// BootMachine returns what a machine should boot, with a token for its install session.
func (s *installService) BootMachine(
	ctx context.Context, r *holdfastv1.BootMachineRequest,
) (*holdfastv1.BootMachineResponse, error) {
	if err := request.Required("mac", r.GetMac()); err != nil {
		return nil, err
	}
	return edge.RetryAborted(func() (*holdfastv1.BootMachineResponse, error) {
		v, err := s.Node.View(ctx)
		if err != nil {
			return nil, err
		}
		answer := s.bootAnswer(v, r)
		c := &internalv1.Command{Principal: "netboot"}
		switch {
		case takenOver(v, answer, r):
			return s.refuseTakeover(ctx, answer, r), nil
		case answer.GetUnknown():
			return s.discover(ctx, v, r)
		case answer.GetAction() == holdfastv1.BootMachineResponse_WAIT && answer.GetRunId() == "":
			return s.startApproved(ctx, v, answer)
		case answer.GetAction() == holdfastv1.BootMachineResponse_INSTALL:
			secret, hash := secrets.NewToken()
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
		_, err = edge.Apply[*holdfastv1.Install](ctx, s.Node, c)
		refused, ok := errors.AsType[*fsm.Error](err)
		if ok && refused.Reason == fsm.ReasonNoInstall && v.Has(fsm.Level2) {
			peers := answer.GetHttpAddrs()
			answer = waitAnswer(answer.GetMachineId(), answer.GetRunId(), refused.Message)
			answer.HttpAddrs, err = peers, nil
		}
		return answer, err
	})
}

// reasonBootTakeover is the reason in the audit trail if another machine asked for a boot
// script.
const reasonBootTakeover = "BOOT_TAKEOVER"

// takenOver reports whether the caller's own MAC address is not one of the machine it
// names. It matters only if the answer would contain an install token or create a
// machine.
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

// refuseTakeover records that another machine asked for a boot script. The caller has to
// wait, like a machine whose install is not ready.
func (s *installService) refuseTakeover(
	ctx context.Context, answer *holdfastv1.BootMachineResponse, r *holdfastv1.BootMachineRequest,
) *holdfastv1.BootMachineResponse {
	s.Log.Warn("refused a boot script: the caller has another MAC address than the machine it names",
		"machine", answer.GetMachineId(), "mac", r.GetMac(),
		"address", r.GetIpAddress(), "link_address", r.GetLinkAddress())
	resource := "nodes/" + r.GetMac()
	if id := answer.GetMachineId(); id != "" {
		resource = "machines/" + id
	}
	s.cfg.Gate.Deny(ctx, "holdfast.v1.InstallService/BootMachine", resource,
		&auth.Error{Code: codes.PermissionDenied, Reason: reasonBootTakeover, Message: "the caller is another machine"})
	return waitAnswer(answer.GetMachineId(), answer.GetRunId(),
		"the boot script is for the machine with MAC address "+r.GetMac()+" only")
}

// lacksInstaller reports whether a machine waits for a bootable installer image, and its
// session does not contain that note yet.
func (s *installService) lacksInstaller(v *fsm.View, answer *holdfastv1.BootMachineResponse, arch string) bool {
	i, ok := v.Install(answer.GetMachineId())
	m, _ := v.Machine(answer.GetMachineId())
	_, why := bootable(v, installerImage, fsm.MachineArch(arch, m))
	return ok && fsm.InstallBoots(i) && answer.GetAction() == holdfastv1.BootMachineResponse_WAIT &&
		why == answer.GetReason() && i.GetNote() != answer.GetReason()
}

// discover creates a machine for an unknown MAC address. The machine awaits approval,
// and boots the inventory image if there is one.
func (s *installService) discover(
	ctx context.Context, v *fsm.View, r *holdfastv1.BootMachineRequest,
) (*holdfastv1.BootMachineResponse, error) {
	facts := &holdfastv1.NodeRecord{IpAddress: r.GetIpAddress(), Arch: r.GetArch()}
	c := &internalv1.Command{Principal: "netboot", Op: &internalv1.Command_ReportNode{
		ReportNode: &internalv1.ReportNode{
			Report:        &holdfastv1.ReportNodeRequest{MacAddress: r.GetMac(), Facts: facts},
			RunId:         "run-" + edge.RandomHex(6),
			MachineId:     edge.RandomHex(4),
			Discover:      true,
			DiscoverLimit: s.discovery().LimitIn(s.State.View()),
		},
	}}
	m, err := edge.Apply[*holdfastv1.Machine](ctx, s.Node, c)
	if err != nil {
		return nil, err
	}
	answer := &holdfastv1.BootMachineResponse{
		Action:    holdfastv1.BootMachineResponse_DISK,
		MachineId: m.GetMachineId(),
		Reason:    "it was discovered now and awaits approval",
		HttpAddrs: httpAddrs(v),
	}
	if img, why := bootable(v, inventoryImage, fsm.MachineArch(r.GetArch(), m)); why == "" {
		answer.Action = holdfastv1.BootMachineResponse_INVENTORY
		answer.Image, answer.Cmdline = img.GetName(), img.GetCmdline()
	}
	return answer, nil
}

// GetWorkOrder returns the work order of an installer.
func (s *installService) GetWorkOrder(
	ctx context.Context, r *holdfastv1.GetWorkOrderRequest,
) (*holdfastv1.WorkOrder, error) {
	v, err := s.Node.View(ctx)
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
	arch := fsm.ArchOf(m.GetNode().GetArch())
	if ok && arch != "" && img.GetArch() != arch { // the run started before the architecture was known
		return nil, &fsm.Error{
			Code: fsm.FailedPrecondition, Reason: fsm.ReasonImageArch,
			Message: "image " + strconv.Quote(i.GetImage()) + " is for " + img.GetArch() +
				", and machine " + strconv.Quote(m.GetMachineId()) +
				" is " + arch + ": cancel the run, and name an image for " + arch,
		}
	}
	if !ok || img.GetDisk() == nil {
		return nil, &fsm.Error{
			Code: fsm.FailedPrecondition, Reason: "IMAGE_MISSING",
			Message: "there is no image " + strconv.Quote(i.GetImage()) + " with a disk: " +
				"add it (holdfast image add), and the install continues",
		}
	}
	o.ImageSha256, o.ImageSizeBytes = img.GetDisk().GetSha256(), img.GetDisk().GetSizeBytes()
	o.ImageFormat, o.ImageCompression = img.GetFormat().String(), img.GetCompression().String()
	return o, nil
}

// tokenSum returns the hash of a token, which is stored instead of it.
func tokenSum(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}

// checkInstallToken checks the token of an installer before a command is proposed. Installers with
// old tokens are common.
func (s *installService) checkInstallToken(ctx context.Context, token string) ([]byte, error) {
	v, err := s.Node.View(ctx)
	if err != nil {
		return nil, err
	}
	sum := tokenSum(token)
	if _, refusal := v.InstallByToken(sum); refusal != nil {
		if refusal.Reason == fsm.ReasonInstallTaken {
			machine := refusal.Meta["machine_id"]
			s.Log.Warn("refused a second installer in an install session: check which host got the boot script",
				"machine", machine, "address", auth.AddressFrom(ctx))
			s.cfg.Gate.Deny(ctx, "holdfast.v1.InstallService/ReportInstall", "machines/"+machine,
				&auth.Error{Code: codes.PermissionDenied, Reason: refusal.Reason, Message: refusal.Message})
		}
		return nil, refusal
	}
	return sum, nil
}

// ReportInstall records a report of an installer.
func (s *installService) ReportInstall(
	ctx context.Context, r *holdfastv1.ReportInstallRequest,
) (*holdfastv1.Install, error) {
	sum, err := s.checkInstallToken(ctx, r.GetToken())
	if err != nil {
		return nil, err
	}
	report := request.WithoutUnknown(r)
	report.Token = ""
	return edge.Apply[*holdfastv1.Install](ctx, s.Node, &internalv1.Command{Principal: "installer",
		Op: &internalv1.Command_ReportInstall{ReportInstall: &internalv1.ReportInstall{Sha256: sum, Report: report}}})
}

// AppendInstallLog appends output of an installer to the run's log.
func (s *installService) AppendInstallLog(
	ctx context.Context, r *holdfastv1.AppendInstallLogRequest,
) (*holdfastv1.AppendInstallLogResponse, error) {
	sum, err := s.checkInstallToken(ctx, r.GetToken())
	if err != nil {
		return nil, err
	}
	data := r.GetData()[:min(len(r.GetData()), maxLogPart)]
	i, err := edge.Apply[*holdfastv1.Install](ctx, s.Node, &internalv1.Command{
		Principal: "installer",
		Op: &internalv1.Command_AppendInstallLog{
			AppendInstallLog: &internalv1.AppendInstallLog{Sha256: sum, Offset: r.GetOffset(), Data: data},
		},
	})
	if err != nil {
		return nil, err
	}
	return &holdfastv1.AppendInstallLogResponse{Next: i.GetLogBytes()}, nil
}
