// Package executortest has a cluster of one for tests of leader tasks: a real FSM and a real fake
// fleet, without consensus.
package executortest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/cluster/leader"
	"github.com/holdfast-metal/holdfast/cluster/outcome"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/holdfast/stepkind"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

// Lab has a real FSM and a real fake fleet, without consensus. A leader that is killed can no
// longer commit or confirm.
type Lab struct {
	T     *testing.T
	FSM   *fsm.FSM
	Fleet *fake.Fleet
	Set   *providers.Set

	mu    sync.Mutex
	index uint64
	dead  map[uint64]bool // by epoch
	epoch uint64

	Commit func(*internalv1.Command)            // if set, is called before each commit
	Refuse func(*internalv1.Command) *fsm.Error // if set, returns the refusal of a command
	Huge   func(*internalv1.Command) bool       // if set, reports whether a command is too large
}

// New returns a Lab with the built-in plans.
func New(t *testing.T, c fake.Config) *Lab {
	t.Helper()
	l := &Lab{T: t, FSM: fsm.New(), Fleet: fake.NewFleet(c), dead: map[uint64]bool{}}
	l.Set = providers.SetOf(map[string]providers.Provider{"fake": fake.New(l.Fleet)})
	for _, p := range fsm.DefaultPlans() {
		l.Must(&internalv1.Command{Op: &internalv1.Command_CreatePlan{CreatePlan: &internalv1.CreatePlan{Plan: p,
			BuiltIn: true}}})
	}
	return l
}

var errKilled = &outcome.Error{Outcome: outcome.Unknown, Err: errors.New("leader was killed")}

// Apply commits a command as the leader of its epoch. As in a cluster, the outcome is unknown if
// ctx ends before the commit.
func (l *Lab) Apply(ctx context.Context, cmd *internalv1.Command) (fsm.Result, error) {
	if l.Commit != nil {
		l.Commit(cmd)
		if err := ctx.Err(); err != nil {
			return fsm.Result{}, &outcome.Error{Outcome: outcome.Unknown,
				Err: fmt.Errorf("wait for the commit: %w", err)}
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead[cmd.GetEpoch()] {
		return fsm.Result{}, errKilled
	}
	if cmd.GetTime() == nil {
		cmd.Time = timestamppb.Now()
	}
	if l.Huge != nil && l.Huge(cmd) {
		return fsm.Result{}, &outcome.Error{Outcome: outcome.NotApplied, Err: outcome.ErrTooLarge}
	}
	if l.Refuse != nil {
		if err := l.Refuse(cmd); err != nil {
			return fsm.Result{Err: err}, err
		}
	}
	data, err := proto.Marshal(&internalv1.Entry{Commands: []*internalv1.Command{cmd}})
	if err != nil {
		return fsm.Result{}, err
	}
	l.index++
	res := l.FSM.Apply(l.index, l.epoch, data)
	if err := l.FSM.HaltError(); err != nil {
		return fsm.Result{}, err
	}
	if res[0].Err != nil {
		return res[0], res[0].Err
	}
	return res[0], nil
}

// Written returns the number of applied commands.
func (l *Lab) Written() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.index
}

// Must applies a command and returns its value.
func (l *Lab) Must(cmd *internalv1.Command) proto.Message {
	l.T.Helper()
	res, err := l.Apply(l.T.Context(), cmd)
	if err != nil {
		l.T.Fatalf("apply %T: %v", cmd.GetOp(), err)
	}
	return res.Value
}

// Machine registers a machine.
func (l *Lab) Machine(id string) {
	l.T.Helper()
	l.Must(&internalv1.Command{Op: &internalv1.Command_RegisterMachine{RegisterMachine: &internalv1.RegisterMachine{
		Machine: &holdfastv1.Machine{MachineId: id, Spec: &holdfastv1.MachineSpec{}}}}})
}

// Plan creates a plan.
func (l *Lab) Plan(id string, steps ...*holdfastv1.Step) {
	l.T.Helper()
	l.Must(&internalv1.Command{
		Op: &internalv1.Command_CreatePlan{CreatePlan: &internalv1.CreatePlan{Plan: &holdfastv1.Plan{PlanId: id,
			Steps: steps}}}})
}

// Start starts a run with a new request id.
func (l *Lab) Start(machine, typ, plan string, params map[string]string) *holdfastv1.Run {
	l.T.Helper()
	run, _ := l.Must(&internalv1.Command{Op: &internalv1.Command_StartRun{StartRun: &internalv1.StartRun{
		RunId: "run-" + machine + "-" + fmt.Sprint(l.Written()), MachineId: machine, RequestId: fmt.Sprint("req-",
			l.Written()), Type: typ, PlanId: plan, Params: params,
		DefaultTimeoutSeconds: 20, DefaultMaxRetries: 2}}}).(*holdfastv1.Run)
	return run
}

// Leader is one term of leader tasks.
type Leader struct {
	Epoch uint64
	Kill  func() // as SIGKILL would: no later command of it is committed
	Stop  func() // ends the term gracefully
	Err   error  // of the task that failed; valid when Done is closed
	Done  chan struct{}
}

// Establish begins the next term without tasks, and returns its epoch.
func (l *Lab) Establish() uint64 {
	l.T.Helper()
	l.mu.Lock()
	l.epoch++
	epoch := l.epoch
	l.mu.Unlock()
	l.Must(&internalv1.Command{
		Op: &internalv1.Command_LeaderEstablished{LeaderEstablished: &internalv1.LeaderEstablished{PeerId: "n1",
			Term: epoch}}})
	return epoch
}

// Lead begins the next term with a task.
func (l *Lab) Lead(task func(context.Context, leader.Term) error) *Leader {
	l.T.Helper()
	epoch := l.Establish()
	ctx, cancel := context.WithCancel(l.T.Context())
	ld := &Leader{Epoch: epoch, Done: make(chan struct{})}
	ld.Kill = func() {
		l.mu.Lock()
		l.dead[epoch] = true
		l.mu.Unlock()
		cancel()
	}
	ld.Stop = func() { cancel(); <-ld.Done }
	term := leader.NewTerm(epoch, func(context.Context) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.dead[epoch] || epoch != l.epoch {
			return errKilled
		}
		return nil
	})
	go func() {
		defer close(ld.Done)
		ld.Err = task(ctx, term)
	}()
	l.T.Cleanup(ld.Stop)
	return ld
}

// Epoch returns the epoch of the newest term.
func (l *Lab) Epoch() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.epoch
}

// KillApplying kills the leader of an epoch. It is for Refuse, which Apply calls under its lock.
func (l *Lab) KillApplying(epoch uint64) { l.dead[epoch] = true }

// Until blocks until cond returns true for the state.
func (l *Lab) Until(cond func(*fsm.View) bool) {
	l.T.Helper()
	for {
		changed := l.FSM.Changed()
		if cond(l.FSM.View()) {
			return
		}
		select {
		case <-changed:
		case <-l.T.Context().Done():
			l.T.Fatal("the state has not come to what is waited for")
		}
	}
}

// Condition returns a condition of a machine, or nil.
func Condition(m *holdfastv1.Machine, kind string) *holdfastv1.Condition {
	for _, c := range m.GetStatus().GetConditions() {
		if c.GetType() == kind {
			return c
		}
	}
	return nil
}

// Wait blocks until cond returns true for a run.
func (l *Lab) Wait(run string, what string, cond func(*holdfastv1.Run) bool) *holdfastv1.Run {
	l.T.Helper()
	deadline := time.After(5 * time.Minute)
	for {
		changed := l.FSM.Changed()
		r, _ := l.FSM.View().Run(run)
		if cond(r) {
			return r
		}
		select {
		case <-changed:
		case <-deadline:
			l.T.Fatalf("run %s: not %s in time: %v", run, what, r)
		}
	}
}

// Ended blocks until a run has ended, and returns it.
func (l *Lab) Ended(run string) *holdfastv1.Run {
	l.T.Helper()
	return l.Wait(run, "ended", fsm.Ended)
}

// Log returns the output of a run on streams of its log.
func (l *Lab) Log(run string, streams ...string) string {
	var out []byte
	for c := range l.FSM.View().RunLog(run, 0) {
		for _, s := range streams {
			if c.GetStream() == s {
				out = append(out, c.GetData()...)
			}
		}
	}
	return string(out)
}

// Destructive counts the destructive effects at the fleet for each attempt.
func (l *Lab) Destructive(run string) map[string]int {
	seen := map[string]int{}
	for _, e := range l.Fleet.Effects("", run, 0) {
		if e.Destructive {
			seen[fmt.Sprintf("%s/%d/%s", e.Step, e.Attempt, e.Effect)]++
		}
	}
	return seen
}

// Step returns a step of the kind that a message configures, with a timeout of 10 s.
func Step(name string, settings proto.Message) *holdfastv1.Step {
	s := stepkind.With(settings)
	s.Name, s.TimeoutSeconds = name, 10
	return s
}
