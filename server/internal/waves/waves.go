package waves

import (
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/describe"
	"github.com/holdfast-metal/holdfast/internal/filter"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/internal/edge"
	"github.com/holdfast-metal/holdfast/server/internal/page"
	"github.com/holdfast-metal/holdfast/server/internal/request"
)

// Machines lists the machines that a filter selects (*fleet.Machines).
type Machines interface {
	ListMachines(ctx context.Context, r *holdfastv1.ListMachinesRequest) (*holdfastv1.ListMachinesResponse, error)
}

// Starts prepares commands that start runs (*startrun.Preparer).
type Starts interface {
	Prepare(ctx context.Context, start *internalv1.StartRun) error
}

// Service implements WaveService.
type Service struct {
	holdfastv1.UnimplementedWaveServiceServer
	*edge.Peer
	machines Machines
	starts   Starts
}

// New returns the service of a peer.
func New(peer *edge.Peer, machines Machines, starts Starts) *Service {
	return &Service{Peer: peer, machines: machines, starts: starts}
}

// GetWave gets a wave with its machines, or with one of them.
func (s *Service) GetWave(ctx context.Context, r *holdfastv1.GetWaveRequest) (*holdfastv1.Wave, error) {
	return s.wave(ctx, r.GetWaveId(), r.GetMachineId())
}

// wave returns a wave with its machines, or with one of them, and with the errors of their runs.
func (s *Service) wave(ctx context.Context, id, machine string) (*holdfastv1.Wave, error) {
	v, err := request.View(ctx, s.Cluster.View, "wave_id", id)
	if err != nil {
		return nil, err
	}
	w, ok := v.Wave(id)
	if !ok || !visible(ctx, v, id) {
		return nil, request.NotFound("WAVE_NOT_FOUND", "wave", id)
	}
	w = proto.CloneOf(w)
	machines := v.WaveMachines(id)
	if machine != "" {
		m, ok := v.WaveMachine(id, machine)
		machines = func(yield func(*holdfastv1.WaveMachine) bool) { _ = ok && yield(m) }
	}
	w.HoldsUp = holdsUp(v, w)
	for m := range machines {
		w.Machines = append(w.Machines, withRun(v, m))
	}
	return w, nil
}

// withRun returns a machine of a wave with the wait or the error of its run.
func withRun(v *fsm.View, m *holdfastv1.WaveMachine) *holdfastv1.WaveMachine {
	run, ok := v.Run(m.GetRunId())
	switch {
	case !ok:
	case !fsm.Ended(run):
		m = proto.CloneOf(m)
		if m.Wait = proto.CloneOf(run.GetWait()); m.GetWait() != nil {
			m.Wait.Sentence = describe.Wait(m.GetWait())
		}
	case run.GetError() != nil:
		m = proto.CloneOf(m)
		m.Reason, m.Error = run.GetError().GetReason(), run.GetError().GetMessage()
	}
	return m
}

// holdsUp returns the machine whose run has waited longest, of a wave that only waits for its
// active runs, and nil of all others.
func holdsUp(v *fsm.View, w *holdfastv1.Wave) *holdfastv1.WaveMachine {
	if w.GetPhase() != holdfastv1.Wave_STOPPING {
		return nil
	}
	var longest *holdfastv1.WaveMachine
	for m := range v.ActiveOfWave(w.GetWaveId()) {
		m = withRun(v, m)
		if longest == nil || m.GetWait().GetSince().AsTime().Before(longest.GetWait().GetSince().AsTime()) {
			longest = m
		}
	}
	return longest
}

// ListWaves lists waves, newest first.
func (s *Service) ListWaves(
	ctx context.Context, r *holdfastv1.ListWavesRequest,
) (*holdfastv1.ListWavesResponse, error) {
	f, err := request.Filter(waveFilter, r.GetFilter())
	if err != nil {
		return nil, err
	}
	p, v, err := page.Open(ctx, s.Cluster.View, r, "waves", r.GetFilter())
	if err != nil {
		return nil, err
	}
	resp := &holdfastv1.ListWavesResponse{}
	resp.Waves, resp.NextPageToken, err = page.Collect(ctx, p, v.Waves(p.After), func(w *holdfastv1.Wave) bool {
		return f.Match(w) && visible(ctx, v, w.GetWaveId())
	})
	for i, w := range resp.GetWaves() {
		if m := holdsUp(v, w); m != nil {
			w = proto.CloneOf(w)
			w.HoldsUp = m
			resp.Waves[i] = w
		}
	}
	return resp, err
}

// waveFilter returns the fields that filters of waves can use.
func waveFilter() *filter.Schema {
	return &filter.Schema{
		Message:   (*holdfastv1.Wave)(nil).ProtoReflect().Descriptor(),
		Hidden:    []string{"machines", "last_failure", "holds_up"},
		Canonical: map[string]func(string) string{"type": request.CanonicalType},
	}
}

// CancelWave cancels a wave.
func (s *Service) CancelWave(ctx context.Context, r *holdfastv1.CancelWaveRequest) (*holdfastv1.Wave, error) {
	if err := request.Required("wave_id", r.GetWaveId()); err != nil {
		return nil, err
	}
	if err := request.Comment("reason", r.GetReason()); err != nil {
		return nil, err
	}
	c := auth.Command(ctx)
	c.Op = &internalv1.Command_CancelWave{CancelWave: &internalv1.CancelWave{
		WaveId: r.GetWaveId(), Reason: r.GetReason(), KeepRuns: r.GetKeepRuns(),
	}}
	return edge.Apply[*holdfastv1.Wave](ctx, s.Cluster, c)
}
