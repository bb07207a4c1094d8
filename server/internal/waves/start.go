package waves

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/internal/edge"
	"github.com/holdfast-metal/holdfast/server/internal/request"
	"github.com/holdfast-metal/holdfast/server/internal/scope"
)

const pageSize = 1000 // of the lists of machines

// StartWave starts a wave. It runs on the leader, whose state selects the machines. Apply does not
// read the filter, because its meaning may differ between builds.
func (s *Service) StartWave(ctx context.Context, r *holdfastv1.StartWaveRequest) (*holdfastv1.Wave, error) {
	c := &internalv1.StartWave{MachineIds: r.GetMachineIds(), Wave: &holdfastv1.Wave{
		WaveId: r.GetRequestId(), Type: r.GetType(), PlanId: r.GetPlanId(), Params: r.GetParams(), Filter: r.GetFilter(),
		MaxParallel: r.GetMaxParallel(), MaxFailures: r.GetMaxFailures(),
	}}
	if len(c.GetMachineIds()) == 0 {
		if err := request.Required("filter", r.GetFilter()); err != nil {
			return nil, err
		}
		had, err := s.members(ctx, r.GetRequestId())
		if err != nil {
			return nil, err
		}
		if c.MachineIds = had; len(had) == 0 { // a repeated request is about the machines of the first
			if c.MachineIds, err = s.matching(ctx, r.GetFilter()); err != nil {
				return nil, err
			}
		}
	}
	return s.start(ctx, c, r.GetValidateOnly())
}

// RetryWave starts a wave on the machines of another one that have not succeeded.
func (s *Service) RetryWave(ctx context.Context, r *holdfastv1.RetryWaveRequest) (*holdfastv1.Wave, error) {
	old, err := s.wave(ctx, r.GetWaveId(), "")
	if err != nil {
		return nil, err
	}
	if !fsm.WaveEnded(old) {
		return nil, &fsm.Error{Code: fsm.FailedPrecondition, Reason: "WAVE_ACTIVE", Message: fmt.Sprintf(
			"wave %s is %s: wait for its end, or cancel it", old.GetWaveId(), old.GetPhase())}
	}
	w := &holdfastv1.Wave{
		WaveId: r.GetRequestId(), Type: old.GetType(), PlanId: old.GetPlanId(), Params: old.GetParams(),
		MaxParallel: old.GetMaxParallel(), MaxFailures: old.GetMaxFailures(), RetryOf: old.GetWaveId(),
	}
	if r.GetMaxParallel() != 0 {
		w.MaxParallel = r.GetMaxParallel()
	}
	if r.MaxFailures != nil {
		w.MaxFailures = r.GetMaxFailures()
	}
	c := &internalv1.StartWave{Wave: w}
	v, err := s.Cluster.View(ctx)
	if err != nil {
		return nil, err
	}
	for _, m := range old.GetMachines() {
		if _, exists := v.Machine(m.GetMachineId()); exists && m.GetState() != holdfastv1.WaveMachine_SUCCEEDED {
			c.MachineIds = append(c.MachineIds, m.GetMachineId())
		}
	}
	if len(c.GetMachineIds()) == 0 {
		return nil, &fsm.Error{Code: fsm.FailedPrecondition, Reason: "NOTHING_TO_RETRY",
			Message: fmt.Sprintf("the machines of wave %s have succeeded, or do not exist any more", old.GetWaveId())}
	}
	return s.start(ctx, c, r.GetValidateOnly())
}

// start commits a wave, or only checks it.
func (s *Service) start(ctx context.Context, in *internalv1.StartWave, validateOnly bool) (*holdfastv1.Wave, error) {
	if in.GetWave().GetWaveId() == "" {
		in.Wave.WaveId = "wave-" + edge.RandomHex(6)
	}
	if err := fsm.CheckStartWave(in); err != nil {
		return nil, err
	}
	if bad := s.DeniedURLs("", &internalv1.StartRun{Params: in.GetWave().GetParams()}); len(bad) > 0 {
		return nil, fsm.Invalid(bad)
	}
	in.Wave = fsm.CompleteWave(in.GetWave())
	c := auth.Command(ctx)
	if c.GetOrigin() != nil {
		c.Origin.RequestId = in.GetWave().GetWaveId()
	}
	c.Op = &internalv1.Command_StartWave{StartWave: in}
	if validateOnly {
		return s.validate(ctx, c, in)
	}
	return edge.Apply[*holdfastv1.Wave](ctx, s.Cluster, c)
}

// validate returns the wave that a command would start, or the existing wave of its id. A machine
// whose run would be refused now is REFUSED, with the reason.
func (s *Service) validate(
	ctx context.Context, c *internalv1.Command, in *internalv1.StartWave,
) (*holdfastv1.Wave, error) {
	w, err := edge.Try[*holdfastv1.Wave](ctx, s.Peer, c)
	if err != nil {
		return nil, err
	}
	if _, exists := s.State.View().Wave(w.GetWaveId()); exists {
		return s.wave(ctx, w.GetWaveId(), "")
	}
	w = proto.CloneOf(w)
	w.CreatedAt, w.Revision = nil, 0
	for _, id := range in.GetMachineIds() {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		m := &holdfastv1.WaveMachine{MachineId: id, State: holdfastv1.WaveMachine_WAITING}
		start := fsm.WaveStart(w, id)
		err := s.starts.Prepare(ctx, start)
		if err == nil {
			c.Op = &internalv1.Command_StartRun{StartRun: start}
			if res := s.State.Try(c); res.Err != nil {
				err = res.Err
			}
		}
		if refusal, ok := errors.AsType[*fsm.Error](err); ok {
			m.State, m.Reason, m.Error = holdfastv1.WaveMachine_REFUSED, refusal.Reason, refusal.Message
			w.Waiting, w.Refused = w.GetWaiting()-1, w.GetRefused()+1
		} else if err != nil {
			return nil, err
		}
		w.Machines = append(w.Machines, m)
	}
	return w, nil
}

// members returns the machines of a wave, or none if the caller sees no such wave.
func (s *Service) members(ctx context.Context, id string) ([]string, error) {
	v, err := s.Cluster.View(ctx)
	if err != nil {
		return nil, err
	}
	var ids []string
	if !visible(ctx, v, id) {
		return nil, nil
	}
	for m := range v.WaveMachines(id) {
		ids = append(ids, m.GetMachineId())
	}
	return ids, nil
}

// matching returns the machines that a filter selects, and that the caller may see.
func (s *Service) matching(ctx context.Context, filter string) ([]string, error) {
	var ids []string
	list := &holdfastv1.ListMachinesRequest{Filter: filter, PageSize: pageSize}
	for {
		resp, err := s.machines.ListMachines(ctx, list)
		if err != nil {
			return nil, err
		}
		for _, m := range resp.GetMachines() {
			ids = append(ids, m.GetMachineId())
		}
		if list.PageToken = resp.GetNextPageToken(); list.PageToken == "" {
			break
		}
		if len(ids) > fsm.MaxWaveMachines {
			return nil, request.Invalid("filter", fmt.Sprintf("matches more than %d machines, the maximum of a wave",
				fsm.MaxWaveMachines))
		}
	}
	if len(ids) == 0 {
		return nil, &fsm.Error{Code: fsm.NotFound, Reason: "NO_MACHINE", Message: fmt.Sprintf(
			"no machine matches %q", filter)}
	}
	return ids, nil
}

// visible reports whether a caller may see a wave: all its machines were in the caller's pools when
// it started, those that exist are now, and at least one exists.
func visible(ctx context.Context, v *fsm.View, id string) bool {
	caller := auth.From(ctx)
	if !auth.Scoped(caller) {
		return true
	}
	some := false
	for machine, pool := range v.PoolsOfWave(id) {
		m, ok := v.Machine(machine)
		if ok && !scope.Visible(caller, m) || !auth.InScope(caller, pool) {
			return false
		}
		some = some || ok
	}
	return some
}
