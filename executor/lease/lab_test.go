package lease_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/cluster/leader"
	"github.com/holdfast-metal/holdfast/cluster/outcome"
	"github.com/holdfast-metal/holdfast/executor/lease"
	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

const (
	machineTTL = 5 * time.Minute
	poolTTL    = 15 * time.Second
)

// lab is a replicated state with one leader at a time, in a synctest bubble.
type lab struct {
	t     *testing.T
	state *fsm.FSM
	rnd   *rand.Rand
	skew  time.Duration // of the leader's wall clock

	mu       sync.Mutex
	index    uint64
	tooLarge int           // number of too large commands
	disk     chan struct{} // commands wait until it is closed; nil: no wait

	term   uint64
	engine atomic.Pointer[lease.Engine]
	cut    *bool // the leader is isolated; under mu
	stop   context.CancelFunc
	done   chan error
}

func newLab(t *testing.T, seed uint64) *lab {
	l := &lab{t: t, state: fsm.New(), rnd: rand.New(rand.NewPCG(seed, 1))}
	l.must(&internalv1.Command{
		Op: &internalv1.Command_CreatePool{CreatePool: &internalv1.CreatePool{Pool: &holdfastv1.Pool{PoolId: "gpu"}}}})
	return l
}

// hostAhead is how far the clock of the leader's host is ahead of the cluster's time.
const hostAhead = 24 * time.Hour

// proposer commits for one leader while its network works.
type proposer struct {
	*lab
	cut *bool // under mu
}

// entrySize is the maximum size of a log entry (package cluster), in bytes.
const entrySize = 512 << 10

var errCut = &outcome.Error{Outcome: outcome.Unknown, Err: errors.New("cut off")}

func (p proposer) Apply(ctx context.Context, cmd *internalv1.Command) (fsm.Result, error) {
	p.mu.Lock()
	disk, stalled := time.Duration(1+p.rnd.IntN(20))*time.Millisecond, p.disk
	p.mu.Unlock()
	pass(disk)
	if stalled != nil {
		<-stalled
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if *p.cut || ctx.Err() != nil {
		return fsm.Result{}, errCut
	}
	if proto.Size(cmd) > entrySize {
		p.tooLarge++
		return fsm.Result{}, &outcome.Error{Outcome: outcome.NotApplied, Err: outcome.ErrTooLarge}
	}
	res := p.apply(cmd)
	if res.Err != nil {
		return res, res.Err
	}
	return res, nil
}

func (p proposer) View() *fsm.View { return p.state.View() }

// stall blocks the disk until the returned function is called.
func (l *lab) stall() func() {
	l.mu.Lock()
	defer l.mu.Unlock()
	disk := make(chan struct{})
	l.disk = disk
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.disk = nil
		close(disk)
	})
}

// setSkew sets the wall clock of the next proposals.
func (l *lab) setSkew(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.skew = d
}

func (l *lab) apply(cmd *internalv1.Command) fsm.Result {
	cmd.FeatureLevel = 1
	cmd.Time = timestamppb.New(time.Now().Add(l.skew))
	data, err := proto.Marshal(&internalv1.Entry{Commands: []*internalv1.Command{cmd}})
	if err != nil {
		l.t.Fatal(err)
	}
	l.index++
	return l.state.Apply(l.index, l.term, data)[0]
}

func (l *lab) must(cmd *internalv1.Command) fsm.Result {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	res := l.apply(cmd)
	if res.Err != nil {
		l.t.Fatalf("%v: %v", cmd, res.Err)
	}
	return res
}

// lead makes another peer the leader. The former one is isolated, and learns of it when it is
// replaced.
func (l *lab) lead(outage time.Duration) {
	l.depose()
	pass(outage) // no leader
	l.term++
	l.must(&internalv1.Command{
		Op: &internalv1.Command_LeaderEstablished{LeaderEstablished: &internalv1.LeaderEstablished{PeerId: "p",
			Term: l.term}}})
	cut := false
	l.cut = &cut
	p := proposer{lab: l, cut: &cut}
	ctx, cancel := context.WithCancel(l.t.Context())
	engine := lease.NewEngine(lease.Config{Now: func() time.Time { return time.Now().Add(-hostAhead) }}, p, p)
	l.engine.Store(engine)
	l.done = make(chan error, 1)
	term := leader.NewTerm(l.term, func(context.Context) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if cut {
			return errCut
		}
		return nil
	})
	done := l.done
	go func() { done <- engine.Run(ctx, term) }()
	l.stop = func() {
		l.mu.Lock()
		cut = true
		l.mu.Unlock()
		cancel()
	}
}

func (l *lab) depose() {
	if l.stop == nil {
		return
	}
	l.stop()
	if err := <-l.done; err != nil {
		l.t.Errorf("engine: got %v", err)
	}
	l.stop = nil
}

// register registers a machine with an agent.
func (l *lab) register(id string) {
	l.must(&internalv1.Command{Op: &internalv1.Command_RegisterAgent{RegisterAgent: &internalv1.RegisterAgent{
		Agent: &holdfastv1.RegisterAgentRequest{MachineId: id, Hostname: id, PoolName: "gpu", CpuMillicores: 1000,
			MemoryMib: 1024, PrivateIp: "10.0.0.1"},
		TtlMs: machineTTL.Milliseconds(),
	}}})
}

// renew sends a heartbeat, with retries like a gateway.
func (l *lab) renew(kind internalv1.LeaseRef_Kind, id string) (internalv1.RenewalAnswer_Outcome, error) {
	deadline := time.Now().Add(8 * time.Second)
	for time.Now().Before(deadline) {
		answer := make(chan *internalv1.RenewalAnswer, 1)
		l.engine.Load().Take(&internalv1.Renewal{Lease: &internalv1.LeaseRef{Kind: kind, Id: id}},
			func(a *internalv1.RenewalAnswer) { answer <- a })
		select {
		case a := <-answer:
			if a.GetOutcome() != internalv1.RenewalAnswer_NOT_LEADER {
				return a.GetOutcome(), nil
			}
		case <-time.After(2 * time.Second):
		}
		pass(50 * time.Millisecond)
	}
	return 0, fmt.Errorf("no leader accepted the heartbeat of %s", id)
}

func (l *lab) agentState(id string) holdfastv1.Agent_State {
	m, _ := l.state.View().Machine(id)
	return m.GetStatus().GetAgentState()
}

// pass advances the time of the bubble.
func pass(d time.Duration) {
	time.Sleep(d) // sleep: fake clock
}
