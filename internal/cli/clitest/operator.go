package clitest

import (
	"bytes"
	stdcmp "cmp"
	"context"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Operator is the OperatorService of a Cluster. It stores staged snapshots, and a restore
// reads them like a leader.
type Operator struct {
	holdfastv1.UnimplementedOperatorServiceServer

	mu     sync.Mutex
	File   []byte // sent by SaveSnapshot
	Staged []byte
	Noted  []*holdfastv1.NoteSnapshotRequest
	Rules  *holdfastv1.AutopilotConfig
	Sick   bool
	Left   time.Duration // remaining time of the last restore
	IDs    []string      // restore ids of all calls of RestoreSnapshot
	Lose   func() error  // called by each RestoreSnapshot, which returns its error
}

func (f *Operator) SaveSnapshot(
	_ *holdfastv1.SaveSnapshotRequest, s grpc.ServerStreamingServer[holdfastv1.SnapshotData],
) error {
	for file := f.File; len(file) > 0; file = file[min(1000, len(file)):] {
		if err := s.Send(&holdfastv1.SnapshotData{Data: file[:min(1000, len(file))]}); err != nil {
			return err
		}
	}
	return nil
}

func (f *Operator) NoteSnapshot(
	_ context.Context, r *holdfastv1.NoteSnapshotRequest,
) (*holdfastv1.NoteSnapshotResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Noted = append(f.Noted, r)
	return &holdfastv1.NoteSnapshotResponse{}, nil
}

func (f *Operator) StageSnapshot(
	_ context.Context, r *holdfastv1.StageSnapshotRequest,
) (*holdfastv1.StageSnapshotResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.GetSequence() == 0 {
		f.Staged = nil
	}
	f.Staged = append(f.Staged, r.GetData()...)
	return &holdfastv1.StageSnapshotResponse{}, nil
}

func (f *Operator) RestoreSnapshot(
	ctx context.Context, r *holdfastv1.RestoreSnapshotRequest,
) (*holdfastv1.RestoreSnapshotResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.IDs = append(f.IDs, r.GetRestoreId())
	if f.Lose != nil {
		if err := f.Lose(); err != nil {
			return nil, err
		}
	}
	if end, ok := ctx.Deadline(); ok {
		f.Left = time.Until(end)
	}
	b, err := fsm.ReadBackup(bytes.NewReader(f.Staged))
	if err != nil {
		return nil, err
	}
	return &holdfastv1.RestoreSnapshotResponse{ClusterId: b.Header.GetClusterId(), Index: b.Header.GetIndex(),
		TakenAt: b.Header.GetTakenAt(), Machines: 1, EndedRuns: []string{"run-1"}}, nil
}

func (f *Operator) TransferLeadership(
	_ context.Context, r *holdfastv1.TransferLeadershipRequest,
) (*holdfastv1.TransferLeadershipResponse, error) {
	return &holdfastv1.TransferLeadershipResponse{From: "p1", To: stdcmp.Or(r.GetTo(), "p2"),
		Took: durationpb.New(12 * time.Millisecond)}, nil
}

func (f *Operator) RemovePeer(
	context.Context, *holdfastv1.RemovePeerRequest,
) (*holdfastv1.RemovePeerResponse, error) {
	return &holdfastv1.RemovePeerResponse{}, nil
}

func (f *Operator) AdmitPeer(
	_ context.Context, r *holdfastv1.AdmitPeerRequest,
) (*holdfastv1.AdmitPeerResponse, error) {
	if r.GetId() == "n-gone" {
		return nil, status.Error(codes.Unavailable, "gone")
	}
	return &holdfastv1.AdmitPeerResponse{}, nil
}

func (f *Operator) GetAutopilot(context.Context, *holdfastv1.GetAutopilotRequest) (*holdfastv1.Autopilot, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	a := &holdfastv1.Autopilot{Config: f.Rules, Healthy: !f.Sick, FailureTolerance: 1,
		Peers: []*holdfastv1.AutopilotPeer{{Id: "p1", Suffrage: "voter", Healthy: !f.Sick}}}
	if f.Sick {
		a.Peers[0].Why, a.Peers[0].Since, a.FailureTolerance = "does not answer: refused",
			timestamppb.New(Now().Add(-time.Minute)), 0
	}
	return a, nil
}

func (f *Operator) SetAutopilot(
	ctx context.Context, r *holdfastv1.SetAutopilotRequest,
) (*holdfastv1.Autopilot, error) {
	f.mu.Lock()
	f.Rules = r.GetConfig()
	f.mu.Unlock()
	return f.GetAutopilot(ctx, nil)
}

func (f *Operator) ResetClock(
	_ context.Context, r *holdfastv1.ResetClockRequest,
) (*holdfastv1.ResetClockResponse, error) {
	if !r.GetDryRun() && r.GetTime() == nil {
		return nil, status.Error(codes.InvalidArgument, "no time")
	}
	return &holdfastv1.ResetClockResponse{Before: timestamppb.New(Now().Add(50 * time.Minute)),
		Leader: timestamppb.New(Now())}, nil
}

func (f *Cluster) CollectDebug(
	_ *holdfastv1.CollectDebugRequest, s grpc.ServerStreamingServer[holdfastv1.DebugFile],
) error {
	f.Debugs++
	for _, part := range []*holdfastv1.DebugFile{{Name: "about.txt", Data: []byte("peer ")},
		{Name: "about.txt", Data: []byte("p1\n")}, {Name: "../../etc/evil", Data: []byte("x")}} {
		if err := s.Send(part); err != nil {
			return err
		}
	}
	return nil
}

// SnapshotFile returns a snapshot of a cluster with a machine and a secret.
func SnapshotFile(t *testing.T) []byte {
	t.Helper()
	p := fsmtest.NewPeer()
	p.Do(&internalv1.InitCluster{ClusterId: "c-1"})
	p.Do(&internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: "m-1"}})
	p.Do(&internalv1.PutSecret{Secret: &internalv1.StoredSecret{Secret: &holdfastv1.Secret{Name: "bmc", Type: "bmc",
		Keys: []string{"password", "username"}, Version: 1},
		Sealed: &internalv1.Sealed{KeyId: "k1", Nonce: []byte("n"), Ciphertext: []byte("c")}}})
	b, err := fsmtest.Backup(p.View())
	if err != nil {
		t.Fatal(err)
	}
	return b
}
