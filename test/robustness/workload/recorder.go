package workload

import (
	"context"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Recorder makes calls and records each of them. It is safe for concurrent use.
type Recorder struct {
	peers []peer
	base  time.Time

	mu  sync.Mutex
	ops []Op
}

// NewRecorder returns a Recorder of the peers at some addresses. It must be closed.
func NewRecorder(addrs []string, creds credentials.TransportCredentials) (*Recorder, error) {
	ps, err := dial(addrs, creds)
	if err != nil {
		return nil, err
	}
	return &Recorder{peers: ps, base: time.Now()}, nil
}

// Close closes the connections.
func (r *Recorder) Close() error { return hangUp(r.peers) }

// Ops returns the completed calls, in the order of their return.
func (r *Recorder) Ops() []Op {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.ops)
}

// History returns the recorded calls, about some machines, for a test that makes its own
// calls.
func (r *Recorder) History(machines ...string) *History {
	return &History{Base: r.base, Machines: machines, Ops: r.Ops()}
}

// Since returns the time on the history's clock.
func (r *Recorder) Since() time.Duration { return time.Since(r.base) }

// do makes one call and records it.
func (r *Recorder) do(
	ctx context.Context, op Op, timeout time.Duration,
	call func(context.Context, peer, *Op, grpc.CallOption) error,
) Op {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if op.Stale {
		ctx = stale(ctx)
	}
	ctx, sent := withSent(ctx)
	var header metadata.MD
	op.Call = r.Since()
	err := call(ctx, r.peers[op.Peer], &op, grpc.Header(&header))
	op.Return = r.Since()
	op.Outcome, op.Reason, op.Named = classify(err, sent.Load())
	op.Index = indexOf(header)
	if err != nil {
		st := status.Convert(err)
		op.Code, op.Message = st.Code().String(), st.Message()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ops = append(r.ops, op)
	return op
}

// StartRun starts op.Plan on op.Machine with op.Request.
func (r *Recorder) StartRun(ctx context.Context, op Op, timeout time.Duration) Op {
	op.Kind = StartRun
	return r.do(ctx, op, timeout, func(ctx context.Context, p peer, op *Op, o grpc.CallOption) error {
		run, err := p.runs.StartRun(ctx,
			&holdfastv1.StartRunRequest{RequestId: op.Request, MachineId: op.Machine, PlanId: op.Plan}, o)
		op.saw(run, err)
		return err
	})
}

// CancelRun cancels op.Run.
func (r *Recorder) CancelRun(ctx context.Context, op Op, timeout time.Duration) Op {
	op.Kind = CancelRun
	return r.do(ctx, op, timeout, func(ctx context.Context, p peer, op *Op, o grpc.CallOption) error {
		run, err := p.runs.CancelRun(ctx, &holdfastv1.CancelRunRequest{RunId: op.Run, Reason: "robustness"}, o)
		op.saw(run, err)
		return err
	})
}

// GetRun reads op.Run.
func (r *Recorder) GetRun(ctx context.Context, op Op, timeout time.Duration) Op {
	op.Kind = GetRun
	return r.do(ctx, op, timeout, func(ctx context.Context, p peer, op *Op, o grpc.CallOption) error {
		run, err := p.runs.GetRun(ctx, &holdfastv1.GetRunRequest{RunId: op.Run}, o)
		op.saw(run, err)
		return err
	})
}

// UpdateMachine writes op.Value to the label of op.Machine.
func (r *Recorder) UpdateMachine(ctx context.Context, op Op, timeout time.Duration) Op {
	op.Kind = UpdateMachine
	return r.do(ctx, op, timeout, func(ctx context.Context, p peer, op *Op, o grpc.CallOption) error {
		m, err := p.machines.UpdateMachine(ctx, &holdfastv1.UpdateMachineRequest{
			Machine:    &holdfastv1.Machine{MachineId: op.Machine, Labels: map[string]string{LabelKey: op.Value}},
			UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"labels." + LabelKey}}}, o)
		if err == nil {
			op.Machines = []MachineSeen{seenMachine(m)}
		}
		return err
	})
}

// GetMachine reads op.Machine.
func (r *Recorder) GetMachine(ctx context.Context, op Op, timeout time.Duration) Op {
	op.Kind = GetMachine
	return r.do(ctx, op, timeout, func(ctx context.Context, p peer, op *Op, o grpc.CallOption) error {
		m, err := p.machines.GetMachine(ctx, &holdfastv1.GetMachineRequest{MachineId: op.Machine}, o)
		if err == nil {
			op.Machines = []MachineSeen{seenMachine(m)}
		}
		return err
	})
}

// ListMachines reads all machines that match op.Value, a filter.
func (r *Recorder) ListMachines(ctx context.Context, op Op, timeout time.Duration) Op {
	op.Kind = ListMachines
	return r.do(ctx, op, timeout, func(ctx context.Context, p peer, op *Op, o grpc.CallOption) error {
		list, err := p.machines.ListMachines(ctx, &holdfastv1.ListMachinesRequest{Filter: op.Value, PageSize: 1000}, o)
		for _, m := range list.GetMachines() {
			op.Machines = append(op.Machines, seenMachine(m))
		}
		return err
	})
}

// CreatePlan writes op.Value as the display name of op.Plan, which no run refers to.
func (r *Recorder) CreatePlan(ctx context.Context, op Op, timeout time.Duration) Op {
	op.Kind = CreatePlan
	return r.do(ctx, op, timeout, func(ctx context.Context, p peer, op *Op, o grpc.CallOption) error {
		plan, err := p.plans.CreatePlan(ctx,
			&holdfastv1.CreatePlanRequest{Plan: register(op.Plan, op.Value), Replace: true}, o)
		if err == nil {
			op.Machines = []MachineSeen{{ID: plan.GetPlanId(), Value: plan.GetDisplayName()}}
		}
		return err
	})
}

// GetPlan reads op.Plan.
func (r *Recorder) GetPlan(ctx context.Context, op Op, timeout time.Duration) Op {
	op.Kind = GetPlan
	return r.do(ctx, op, timeout, func(ctx context.Context, p peer, op *Op, o grpc.CallOption) error {
		plan, err := p.plans.GetPlan(ctx, &holdfastv1.GetPlanRequest{PlanId: op.Plan}, o)
		if err == nil {
			op.Machines = []MachineSeen{{ID: plan.GetPlanId(), Value: plan.GetDisplayName()}}
		}
		return err
	})
}

func (op *Op) saw(run *holdfastv1.Run, err error) {
	if err == nil {
		seen := SeenRun(run)
		op.Got = &seen
	}
}
