package executor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/fake"
)

// lab has a real FSM and a real fake fleet; only the consensus between them is missing. A
// leader that is killed can no longer commit or confirm.
type lab struct {
	t     *testing.T
	fsm   *fsm.FSM
	fleet *fake.Fleet
	set   *providers.Set

	mu    sync.Mutex
	index uint64
	dead  map[uint64]bool // by epoch
	epoch uint64

	commit func(*internalv1.Command)            // delays a commit, if it is set
	refuse func(*internalv1.Command) *fsm.Error // what the FSM is made to refuse, if it is set
	huge   func(*internalv1.Command) bool       // what no entry of the log has room for, if it is set
}

func newLab(t *testing.T, c fake.Config) *lab {
	t.Helper()
	l := &lab{t: t, fsm: fsm.New(), fleet: fake.NewFleet(c), dead: map[uint64]bool{}}
	l.set = providers.SetOf(map[string]providers.Provider{"fake": fake.New(l.fleet)})
	for _, p := range fsm.DefaultPlans() {
		l.must(&internalv1.Command{Op: &internalv1.Command_CreatePlan{CreatePlan: &internalv1.CreatePlan{Plan: p,
			BuiltIn: true}}})
	}
	return l
}

var errKilled = &cluster.OutcomeError{Outcome: cluster.Unknown, Err: errors.New("leader was killed")}

// Apply commits a command as the leader of its epoch. As in a cluster, the outcome is unknown if
// ctx ends before the commit.
func (l *lab) Apply(ctx context.Context, cmd *internalv1.Command) (fsm.Result, error) {
	if l.commit != nil {
		l.commit(cmd)
		if err := ctx.Err(); err != nil {
			return fsm.Result{}, &cluster.OutcomeError{Outcome: cluster.Unknown,
				Err: fmt.Errorf("waiting for the commit: %w", err)}
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
	if l.huge != nil && l.huge(cmd) {
		return fsm.Result{}, &cluster.OutcomeError{Outcome: cluster.NotApplied, Err: cluster.ErrTooLarge}
	}
	if l.refuse != nil {
		if err := l.refuse(cmd); err != nil {
			return fsm.Result{Err: err}, err
		}
	}
	data, err := proto.Marshal(&internalv1.Entry{Commands: []*internalv1.Command{cmd}})
	if err != nil {
		return fsm.Result{}, err
	}
	l.index++
	res := l.fsm.Apply(l.index, l.epoch, data)
	if err := l.fsm.HaltError(); err != nil {
		return fsm.Result{}, err
	}
	if res[0].Err != nil {
		return res[0], res[0].Err
	}
	return res[0], nil
}

// written returns the number of applied commands.
func (l *lab) written() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.index
}

func (l *lab) must(cmd *internalv1.Command) proto.Message {
	l.t.Helper()
	res, err := l.Apply(l.t.Context(), cmd)
	if err != nil {
		l.t.Fatalf("apply %T: %v", cmd.GetOp(), err)
	}
	return res.Value
}

func (l *lab) machine(id string) {
	l.t.Helper()
	l.must(&internalv1.Command{Op: &internalv1.Command_RegisterMachine{RegisterMachine: &internalv1.RegisterMachine{
		Machine: &holdfastv1.Machine{MachineId: id, Spec: &holdfastv1.MachineSpec{}}}}})
}

func (l *lab) plan(id string, steps ...*holdfastv1.Step) {
	l.t.Helper()
	l.must(&internalv1.Command{
		Op: &internalv1.Command_CreatePlan{CreatePlan: &internalv1.CreatePlan{Plan: &holdfastv1.Plan{PlanId: id,
			Steps: steps}}}})
}

func (l *lab) start(machine, typ, plan string, params map[string]string) *holdfastv1.Run {
	l.t.Helper()
	run, _ := l.must(&internalv1.Command{Op: &internalv1.Command_StartRun{StartRun: &internalv1.StartRun{
		RunId: "run-" + machine + "-" + fmt.Sprint(l.written()), MachineId: machine, RequestId: fmt.Sprint("req-",
			l.written()), Type: typ, PlanId: plan, Params: params,
		DefaultTimeoutSeconds: 20, DefaultMaxRetries: 2}}}).(*holdfastv1.Run)
	return run
}

// quick returns a configuration for machines that boot in milliseconds.
func quick() Config {
	return Config{RetryBase: 2 * time.Millisecond, RetryMax: 10 * time.Millisecond, PollMin: time.Millisecond,
		PollMax:  10 * time.Millisecond,
		LogFlush: 5 * time.Millisecond, SoftOff: 300 * time.Millisecond}
}

// leader is one term of an executor.
type leader struct {
	*Executor
	epoch uint64
	kill  func() // as SIGKILL would: nothing of it is committed any more
	stop  func() // ends the term in order
	err   error
	done  chan struct{}
}

// lead starts the next term.
func (l *lab) lead(cfg Config) *leader {
	l.t.Helper()
	l.mu.Lock()
	l.epoch++
	epoch := l.epoch
	l.mu.Unlock()
	l.must(&internalv1.Command{
		Op: &internalv1.Command_LeaderEstablished{LeaderEstablished: &internalv1.LeaderEstablished{PeerId: "n1",
			Term: epoch}}})
	ctx, cancel := context.WithCancel(l.t.Context())
	ld := &leader{Executor: New(cfg, l, l.fsm, l.set), epoch: epoch, done: make(chan struct{})}
	ld.kill = func() {
		l.mu.Lock()
		l.dead[epoch] = true
		l.mu.Unlock()
		cancel()
	}
	ld.stop = func() { cancel(); <-ld.done }
	term := cluster.NewTerm(epoch, func(context.Context) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.dead[epoch] || epoch != l.epoch {
			return errKilled
		}
		return nil
	})
	go func() {
		defer close(ld.done)
		ld.err = ld.Run(ctx, term)
	}()
	l.t.Cleanup(ld.stop)
	return ld
}

// wait blocks until cond returns true for a run.
func (l *lab) wait(run string, what string, cond func(*holdfastv1.Run) bool) *holdfastv1.Run {
	l.t.Helper()
	deadline := time.After(5 * time.Minute)
	for {
		changed := l.fsm.Changed()
		r, _ := l.fsm.View().Run(run)
		if cond(r) {
			return r
		}
		select {
		case <-changed:
		case <-deadline:
			l.t.Fatalf("run %s: not %s in time: %v", run, what, r)
		}
	}
}

func (l *lab) ended(run string) *holdfastv1.Run {
	l.t.Helper()
	return l.wait(run, "ended", fsm.Ended)
}

func (l *lab) log(run string, streams ...string) string {
	var out []byte
	for c := range l.fsm.View().RunLog(run, 0) {
		for _, s := range streams {
			if c.GetStream() == s {
				out = append(out, c.GetData()...)
			}
		}
	}
	return string(out)
}

// destructive counts the destructive effects that the fleet saw for each attempt.
func (l *lab) destructive(run string) map[string]int {
	seen := map[string]int{}
	for _, e := range l.fleet.Effects("", run, 0) {
		if e.Destructive {
			seen[fmt.Sprintf("%s/%d/%s", e.Step, e.Attempt, e.Effect)]++
		}
	}
	return seen
}

func step(name string, kind any) *holdfastv1.Step {
	s := &holdfastv1.Step{Name: name, TimeoutSeconds: 10}
	switch k := kind.(type) {
	case *holdfastv1.SshCommand:
		s.Kind = &holdfastv1.Step_Ssh{Ssh: k}
	case *holdfastv1.Reboot:
		s.Kind = &holdfastv1.Step_Reboot{Reboot: k}
	case *holdfastv1.SetNetboot:
		s.Kind = &holdfastv1.Step_Netboot{Netboot: k}
	case *holdfastv1.RepaveImage:
		s.Kind = &holdfastv1.Step_Repave{Repave: k}
	case *holdfastv1.KubeadmJoin:
		s.Kind = &holdfastv1.Step_Join{Join: k}
	case *holdfastv1.VerifyInCluster:
		s.Kind = &holdfastv1.Step_Verify{Verify: k}
	case *holdfastv1.NetReconfig:
		s.Kind = &holdfastv1.Step_Net{Net: k}
	case *holdfastv1.RmaAction:
		s.Kind = &holdfastv1.Step_Rma{Rma: k}
	case *holdfastv1.Power:
		s.Kind = &holdfastv1.Step_Power{Power: k}
	case *holdfastv1.Inspect:
		s.Kind = &holdfastv1.Step_Inspect{Inspect: k}
	case *holdfastv1.Identify:
		s.Kind = &holdfastv1.Step_Identify{Identify: k}
	case *holdfastv1.ReadEventLog:
		s.Kind = &holdfastv1.Step_EventLog{EventLog: k}
	case *holdfastv1.ClearEventLog:
		s.Kind = &holdfastv1.Step_ClearEventLog{ClearEventLog: k}
	case *holdfastv1.ResetBmc:
		s.Kind = &holdfastv1.Step_ResetBmc{ResetBmc: k}
	case *holdfastv1.Media:
		s.Kind = &holdfastv1.Step_Media{Media: k}
	case *holdfastv1.ReadInventory:
		s.Kind = &holdfastv1.Step_Inventory{Inventory: k}
	case *holdfastv1.SerialConsole:
		s.Kind = &holdfastv1.Step_Console{Console: k}
	default:
		panic("no such kind")
	}
	return s
}
