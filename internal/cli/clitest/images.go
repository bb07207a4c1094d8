package clitest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func (f *Cluster) AddImage(_ context.Context, r *holdfastv1.AddImageRequest) (*holdfastv1.Image, error) {
	return r.GetImage(), nil
}

func (f *Cluster) GetImage(_ context.Context, r *holdfastv1.GetImageRequest) (*holdfastv1.Image, error) {
	return &holdfastv1.Image{Name: r.GetName(), Arch: "amd64", Format: holdfastv1.Image_QCOW2,
		Compression: holdfastv1.Image_NONE, Disk: &holdfastv1.Image_File{
			Sha256: strings.Repeat("a", 64), SizeBytes: 3 << 20, Copies: []*holdfastv1.Image_Copy{
				{PeerId: "n1", Present: true}, {PeerId: "n2", ReceivedBytes: 1 << 20}, {PeerId: "n3", Error: "it is down"},
			}}}, nil
}

// UploadFile accepts a file, and reports copies at some peers if its checksum is correct.
func (f *Cluster) UploadFile(
	s grpc.BidiStreamingServer[holdfastv1.UploadFileRequest, holdfastv1.UploadFileResponse],
) error {
	first, err := s.Recv()
	if err != nil {
		return err
	}
	if err := s.Send(&holdfastv1.UploadFileResponse{}); err != nil {
		return err
	}
	h := sha256.New()
	for {
		r, err := s.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		h.Write(r.GetData())
	}
	if hex.EncodeToString(h.Sum(nil)) != first.GetHeader().GetSha256() {
		return errors.New("checksum differs from the announced one")
	}
	return s.Send(&holdfastv1.UploadFileResponse{Done: true, Peers: []string{"n1", "n2"}})
}

// The sessions of the fake cluster: one that proceeds with each request, one that fails, and one
// that has ended.
func (f *Cluster) GetInstall(_ context.Context, r *holdfastv1.GetInstallRequest) (*holdfastv1.Install, error) {
	asked := len(slices.DeleteFunc(Asked[*holdfastv1.GetInstallRequest](f),
		func(o *holdfastv1.GetInstallRequest) bool { return o.GetMachineId() != r.GetMachineId() }))
	i := &holdfastv1.Install{MachineId: r.GetMachineId(), RunId: "run-789", Step: "repave-os", Attempt: 1,
		Image: "debian-13", Disk: "by=smallest", Stage: holdfastv1.Install_WRITING, Progress: 40,
		OpenedAt: timestamppb.New(Now().Add(-10 * time.Minute)), BootedAt: timestamppb.New(Now().Add(-8 * time.Minute)),
		StageSince: timestamppb.New(Now().Add(-8 * time.Minute))}
	switch {
	case f.Install != nil:
		return f.Install(asked), nil
	case r.GetMachineId() == "m-slow":
	case asked > 1 && r.GetMachineId() == "m-bad":
		i.Stage, i.Error = holdfastv1.Install_FAILED, "2 disks qualify and nothing was written"
	case asked > 1:
		i.Stage, i.Progress = holdfastv1.Install_BOOTED_DISK, 100
	}
	return i, nil
}

func (f *Cluster) ListInstalls(
	_ context.Context, r *holdfastv1.ListInstallsRequest,
) (*holdfastv1.ListInstallsResponse, error) {
	all := []*holdfastv1.Install{{MachineId: "m-123", RunId: "run-789", Attempt: 2, Image: "debian-13",
		Stage: holdfastv1.Install_WRITING, Progress: 40}}
	if r.GetAll() {
		all = append(all, &holdfastv1.Install{MachineId: "m-124", RunId: "run-700", Attempt: 1,
			Stage: holdfastv1.Install_COMPLETE, Progress: 100, ClosedAt: timestamppb.New(Now())})
	}
	return &holdfastv1.ListInstallsResponse{Installs: all}, nil
}

func (f *Cluster) ProbePlan(
	_ context.Context, r *holdfastv1.ProbePlanRequest,
) (*holdfastv1.ProbePlanResponse, error) {
	last := &holdfastv1.Probe{Step: "repave-os", Kind: "repave", What: "image", Verdict: holdfastv1.Probe_OK,
		Message: "image: disk on 3 of 3 peers"}
	if r.GetParams()["image"] == "none" {
		last.Verdict, last.Message = holdfastv1.Probe_FAILS, `there is no image "none"`
	}
	return &holdfastv1.ProbePlanResponse{Probes: []*holdfastv1.Probe{{What: "machine", Verdict: holdfastv1.Probe_OK},
		last}}, nil
}
