package clitest

import (
	"context"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Waves has one wave, which ends as it is set to when its counts are read.
type Waves struct {
	holdfastv1.UnimplementedWaveServiceServer
	mu    sync.Mutex
	Wave  *holdfastv1.Wave // nil: none has been started
	Ends  *holdfastv1.Wave // merged into it at the next list; nil: it does not end
	reads int
}

func (f *Waves) StartWave(_ context.Context, r *holdfastv1.StartWaveRequest) (*holdfastv1.Wave, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := &holdfastv1.Wave{WaveId: r.GetRequestId(), Type: r.GetType(), MaxParallel: r.GetMaxParallel(),
		Total: int32(len(r.GetMachineIds())), Phase: holdfastv1.Wave_RUNNING}
	if !r.GetValidateOnly() {
		f.Wave = w
	}
	return proto.CloneOf(w), nil
}

func (f *Waves) GetWave(_ context.Context, r *holdfastv1.GetWaveRequest) (*holdfastv1.Wave, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.Wave == nil || f.Wave.GetWaveId() != r.GetWaveId() {
		return nil, status.Error(codes.NotFound, "no such wave")
	}
	return proto.CloneOf(f.Wave), nil
}

func (f *Waves) ListWaves(context.Context, *holdfastv1.ListWavesRequest) (*holdfastv1.ListWavesResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads++
	if f.Ends != nil {
		proto.Merge(f.Wave, f.Ends)
		f.Wave.FinishedAt = timestamppb.Now()
	}
	return &holdfastv1.ListWavesResponse{Waves: []*holdfastv1.Wave{proto.CloneOf(f.Wave)}}, nil
}

func (f *Waves) CancelWave(_ context.Context, r *holdfastv1.CancelWaveRequest) (*holdfastv1.Wave, error) {
	return &holdfastv1.Wave{WaveId: r.GetWaveId(), Phase: holdfastv1.Wave_STOPPING, CancelReason: r.GetReason()}, nil
}

func (f *Waves) RetryWave(_ context.Context, r *holdfastv1.RetryWaveRequest) (*holdfastv1.Wave, error) {
	return &holdfastv1.Wave{WaveId: r.GetRequestId(), Type: "REBOOT", Total: 1, RetryOf: r.GetWaveId(),
		Machines: []*holdfastv1.WaveMachine{{MachineId: "m-123"}}}, nil
}
