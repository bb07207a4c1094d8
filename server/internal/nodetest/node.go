package nodetest

import (
	"context"
	"errors"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Node is a cluster of one with a real state but without consensus.
type Node struct {
	Peer *Peer
	// Before is called for each command passed to Apply. If it returns an error, Apply
	// returns it.
	Before func(*internalv1.Command) error
	// Viewed is called for each View. If it returns an error, View returns it.
	Viewed func(context.Context) error
	// NoVote is the result of Votes.
	NoVote error

	mu     sync.Mutex
	leader string
}

// New returns the node of peer p1, which leads.
func New() *Node { return &Node{Peer: NewPeer(), leader: "p1"} }

// Apply implements server.Cluster.
func (n *Node) Apply(_ context.Context, c *internalv1.Command) (fsm.Result, error) {
	n.mu.Lock()
	before := n.Before
	n.mu.Unlock()
	if before != nil {
		if err := before(c); err != nil {
			return fsm.Result{}, err
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	results := n.Peer.Propose(proto.CloneOf(c))
	if len(results) == 0 {
		return fsm.Result{}, errors.New("the state has halted")
	}
	if results[0].Err != nil {
		return results[0], results[0].Err
	}
	return results[0], nil
}

// View implements server.Cluster.
func (n *Node) View(ctx context.Context) (*fsm.View, error) {
	n.mu.Lock()
	viewed := n.Viewed
	n.mu.Unlock()
	if viewed != nil {
		if err := viewed(ctx); err != nil {
			return nil, err
		}
	}
	return n.Peer.View(), nil
}

// Leader implements server.Cluster.
func (n *Node) Leader() (id string, self, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.leader, n.leader == "p1", n.leader != ""
}

// SetLeader changes the leader; "" is none.
func (n *Node) SetLeader(id string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.leader = id
}

// Role implements server.Cluster.
func (n *Node) Role() string {
	if _, self, ok := n.Leader(); !ok {
		return "candidate"
	} else if !self {
		return "follower"
	}
	return "leader"
}

// Readiness implements server.Cluster.
func (n *Node) Readiness() error {
	if _, _, ok := n.Leader(); !ok {
		return errors.New("no leader: n2 does not answer")
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.NoVote
}

// Status implements server.Cluster.
func (n *Node) Status(context.Context) *holdfastv1.ClusterStatus {
	leader, _, _ := n.Leader()
	return &holdfastv1.ClusterStatus{ClusterId: "c-1", Leader: leader, AnsweredBy: "p1"}
}

// Do applies an operation that must be accepted.
func (n *Node) Do(t testing.TB, op proto.Message) proto.Message {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	res := n.Peer.Do(op)
	if res.Err != nil {
		t.Fatalf("%T: %v", op, res.Err)
	}
	return res.Value
}

// Machine registers a machine.
func (n *Node) Machine(t testing.TB, id string) {
	t.Helper()
	n.Do(t, &internalv1.RegisterMachine{Machine: &holdfastv1.Machine{MachineId: id, Spec: &holdfastv1.MachineSpec{}}})
}

// Start creates a PENDING run of one step "one", or of a built-in plan.
func (n *Node) Start(t testing.TB, machineID, runID, planID string) *holdfastv1.Run {
	t.Helper()
	if planID == "" {
		planID = "one"
		n.Do(t, &internalv1.CreatePlan{Plan: OnePlan("one")})
	}
	m, _ := n.Peer.View().Machine(machineID)
	return n.Do(t, &internalv1.StartRun{
		CheckedProvider: fsm.ProviderOf(m), RunId: runID, MachineId: machineID, RequestId: "req-" +
			runID, PlanId: planID, DefaultTimeoutSeconds: 60, DefaultMaxRetries: 2,
	}).(*holdfastv1.Run)
}

// Begin begins an attempt of the current step of a run.
func (n *Node) Begin(t testing.TB, runID string, attempt int32) {
	t.Helper()
	run, _ := n.Peer.View().Run(runID)
	n.Do(t, &internalv1.BeginAttempt{RunId: runID, Step: run.GetCurrentStep(), Attempt: attempt})
}

// End ends an attempt of the current step of a run.
func (n *Node) End(t testing.TB, runID string, attempt int32, o holdfastv1.Attempt_Outcome) {
	t.Helper()
	run, _ := n.Peer.View().Run(runID)
	end := &internalv1.EndAttempt{RunId: runID, Step: run.GetCurrentStep(), Attempt: attempt, Outcome: o}
	if o == holdfastv1.Attempt_FAILED {
		end.Error, end.ErrorClass, end.Permanent = "exit status 3", "transient", true
	}
	n.Do(t, end)
}

// Finish moves a PENDING run of one step to its end.
func (n *Node) Finish(t testing.TB, runID string, o holdfastv1.Attempt_Outcome) {
	t.Helper()
	n.Begin(t, runID, 1)
	n.End(t, runID, 1, o)
}

// Log appends to the log of a run.
func (n *Node) Log(t testing.TB, runID string, data string) {
	t.Helper()
	run, _ := n.Peer.View().Run(runID)
	n.Do(t, &internalv1.AppendRunLogs{Appends: []*internalv1.LogAppend{{
		RunId: runID, Offset: run.GetLogBytes(), Chunks: []*holdfastv1.LogChunk{{Stream: "stdout", Data: []byte(data)}},
	}}})
}

// Outgrow creates so many events of a run that the oldest ones are no longer kept.
func (n *Node) Outgrow(runID string) {
	for {
		if _, err := n.Peer.View().RunEvents(1, 1); err != nil {
			return
		}
		var cmds []*internalv1.Command
		for range 2000 {
			cmds = append(cmds, Command(&internalv1.NoteProgress{RunId: runID, Step: "one", Attempt: 1}))
		}
		n.Peer.Propose(cmds...)
	}
}

// OnePlan returns a plan with one step "one".
func OnePlan(id string) *holdfastv1.Plan {
	ssh := &holdfastv1.Step_Ssh{Ssh: &holdfastv1.SshCommand{Command: "true"}}
	return &holdfastv1.Plan{PlanId: id, Steps: []*holdfastv1.Step{{Name: "one", Kind: ssh}}}
}
