package installs

import (
	"context"
	"crypto/sha256"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/internal/edge"
	"github.com/holdfast-metal/holdfast/server/internal/request"
)

// maxLogPart is the maximum number of bytes that one command appends to an installer's log.
const maxLogPart = 256 << 10

// GetWorkOrder returns the work order of an installer.
func (s *Service) GetWorkOrder(
	ctx context.Context, r *holdfastv1.GetWorkOrderRequest,
) (*holdfastv1.WorkOrder, error) {
	v, err := s.Cluster.View(ctx)
	if err != nil {
		return nil, err
	}
	sum := tokenSum(r.GetToken())
	i, refusal := v.InstallByToken(sum)
	if refusal != nil {
		return nil, refusal
	}
	if err := s.checkCaller(ctx, v, "GetWorkOrder", i, sum, r.GetCaller()); err != nil {
		return nil, err
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

// checkInstallToken returns the hash of an installer's token if it is valid, and its caller may use
// it. It is checked before a command is proposed, because installers with old tokens are common.
func (s *Service) checkInstallToken(
	ctx context.Context, method, token string, c *holdfastv1.InstallCaller,
) ([]byte, error) {
	v, err := s.Cluster.View(ctx)
	if err != nil {
		return nil, err
	}
	sum := tokenSum(token)
	i, refusal := v.InstallByToken(sum)
	if refusal != nil {
		if refusal.Reason == fsm.ReasonInstallTaken {
			machine := refusal.Meta["machine_id"]
			s.Log.Warn("refused a second installer in an install session: check which host got the boot script",
				"machine", machine, "address", auth.AddressFrom(ctx))
			s.denials.Deny(ctx, "holdfast.v1.InstallService/ReportInstall", "machines/"+machine,
				&auth.Error{Code: codes.PermissionDenied, Reason: refusal.Reason, Message: refusal.Message})
		}
		return nil, refusal
	}
	if err := s.checkCaller(ctx, v, method, i, sum, c); err != nil {
		return nil, err
	}
	return sum, nil
}

// ReportInstall records a report of an installer.
func (s *Service) ReportInstall(
	ctx context.Context, r *holdfastv1.ReportInstallRequest,
) (*holdfastv1.Install, error) {
	sum, err := s.checkInstallToken(ctx, "ReportInstall", r.GetToken(), r.GetCaller())
	if err != nil {
		return nil, err
	}
	report := proto.CloneOf(request.WithoutUnknown(r)) // the request may be repeated on another leader
	report.Token, report.Caller = "", nil
	return edge.Apply[*holdfastv1.Install](ctx, s.Cluster, &internalv1.Command{Principal: "installer",
		Op: &internalv1.Command_ReportInstall{ReportInstall: &internalv1.ReportInstall{Sha256: sum, Report: report}}})
}

// AppendInstallLog appends output of an installer to the run's log.
func (s *Service) AppendInstallLog(
	ctx context.Context, r *holdfastv1.AppendInstallLogRequest,
) (*holdfastv1.AppendInstallLogResponse, error) {
	sum, err := s.checkInstallToken(ctx, "AppendInstallLog", r.GetToken(), r.GetCaller())
	if err != nil {
		return nil, err
	}
	data := r.GetData()[:min(len(r.GetData()), maxLogPart)]
	i, err := edge.Apply[*holdfastv1.Install](ctx, s.Cluster, &internalv1.Command{
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
