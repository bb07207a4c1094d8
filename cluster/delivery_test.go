package cluster_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/cluster/call"
	"github.com/holdfast-metal/holdfast/cluster/clustertest"
	"github.com/holdfast-metal/holdfast/cluster/outcome"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// deliveries is shared by the handlers of all peers. Each of the first calls loses its answer.
type deliveries struct {
	lose    atomic.Int32  // answers to lose
	block   chan struct{} // if not nil, a call that has lost its answer waits for it
	mu      sync.Mutex
	secrets []string
	moved   int
}

// nodes is the peer's NodeService. Its methods do not declare that they may be repeated.
type nodes struct {
	holdfastv1.UnimplementedNodeServiceServer
	holdfastv1.UnimplementedOperatorServiceServer
	*deliveries
	p    *clustertest.Peer
	made *atomic.Int32
}

// CreateNode commits a node with another id in each call, as the server does.
func (n nodes) CreateNode(ctx context.Context, r *holdfastv1.CreateNodeRequest) (*holdfastv1.Machine, error) {
	n.mu.Lock()
	n.secrets = append(n.secrets, fmt.Sprintf("%x", call.Secret(ctx, "test", 32)))
	n.mu.Unlock()
	res, err := n.p.Node.Apply(ctx, &internalv1.Command{Principal: "test",
		Op: &internalv1.Command_CreateNode{CreateNode: &internalv1.CreateNode{
			MachineId: fmt.Sprintf("n-%d", n.made.Add(1)), GeneratedId: true, MacAddress: r.GetMacAddress(),
		}}})
	if err != nil {
		return nil, err
	}
	if n.lose.Add(-1) >= 0 {
		if n.block != nil {
			<-n.block
		}
		return nil, &outcome.Error{Outcome: outcome.Unknown, Err: errors.New("lost")}
	}
	return res.Value.(*holdfastv1.Machine), nil
}

// UpdateNode writes a label. If its answer is to be lost, another caller writes the label before
// the next delivery.
func (n nodes) UpdateNode(ctx context.Context, r *holdfastv1.UpdateNodeRequest) (*holdfastv1.Machine, error) {
	set := func(ctx context.Context, label string) (*holdfastv1.Machine, error) {
		res, err := n.p.Node.Apply(ctx, &internalv1.Command{Principal: "test",
			Op: &internalv1.Command_UpdateMachine{UpdateMachine: &internalv1.UpdateMachine{Paths: []string{"labels"},
				Machine: &holdfastv1.Machine{MachineId: r.GetId(), Labels: map[string]string{"by": label}}}}})
		if err != nil {
			return nil, err
		}
		return res.Value.(*holdfastv1.Machine), nil
	}
	m, err := set(ctx, r.GetNode().GetHostname())
	if err == nil && n.lose.Add(-1) >= 0 {
		if _, err := set(context.Background(), "another"); err != nil {
			return nil, err
		}
		return nil, &outcome.Error{Outcome: outcome.Unknown, Err: errors.New("lost")}
	}
	return m, err
}

// TransferLeadership has an effect outside of the state.
func (n nodes) TransferLeadership(
	context.Context, *holdfastv1.TransferLeadershipRequest,
) (*holdfastv1.TransferLeadershipResponse, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.moved++
	return nil, &outcome.Error{Outcome: outcome.Unknown, Err: errors.New("lost")}
}

func delivered(t *testing.T) (c *clustertest.Cluster, d *deliveries, leader, follower *clustertest.Peer) {
	d = &deliveries{}
	made := &atomic.Int32{}
	c = clustertest.Start(t, clustertest.Options{Configure: calm, Register: func(_ int, p *clustertest.Peer) {
		n := nodes{deliveries: d, p: p, made: made}
		holdfastv1.RegisterNodeServiceServer(p.GRPC, n)
		holdfastv1.RegisterOperatorServiceServer(p.GRPC, n)
	}})
	leader = c.Leader()
	settled(t, c, 3)
	return c, d, leader, c.Followers(leader)[0]
}

func createNode(ctx context.Context, p *clustertest.Peer, mac string) (*holdfastv1.Machine, error) {
	return holdfastv1.NewNodeServiceClient(p.Conn).CreateNode(ctx, &holdfastv1.CreateNodeRequest{MacAddress: mac})
}

// machinesOf returns the number of machines in a peer's state.
func machinesOf(p *clustertest.Peer) (n int) {
	for range p.FSM.View().MachineIDs() {
		n++
	}
	return n
}

// A call whose answer was lost is delivered again, through the leader and a follower, and has its
// effect once.
func TestSecondDelivery(t *testing.T) {
	t.Parallel()
	_, d, leader, follower := delivered(t)
	for i, via := range []*clustertest.Peer{leader, follower} {
		d.lose.Store(2)
		d.mu.Lock()
		d.secrets = nil
		d.mu.Unlock()
		m, err := createNode(t.Context(), via, fmt.Sprintf("02:00:00:00:00:%02x", i+1))
		if err != nil {
			t.Fatalf("through %s: %v", via.ID, err)
		}
		if _, ok := leader.FSM.View().Machine(m.GetMachineId()); !ok || machinesOf(leader) != i+1 {
			t.Errorf("through %s: got machine %s of %d, want it and %d", via.ID, m.GetMachineId(), machinesOf(leader), i+1)
		}
		if len(d.secrets) != 3 || d.secrets[0] != d.secrets[1] || d.secrets[1] != d.secrets[2] {
			t.Errorf("through %s: got secrets %v, want the same in three deliveries", via.ID, d.secrets)
		}
	}
	// Two calls are two effects, whatever a caller sends.
	ctx := metadata.AppendToOutgoingContext(t.Context(), "holdfast-delivery",
		"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA;1;true")
	for i := range 2 {
		if _, err := createNode(ctx, follower, fmt.Sprintf("02:00:00:00:01:%02x", i)); err != nil {
			t.Error(err)
		}
	}
	if got := machinesOf(leader); got != 4 {
		t.Errorf("got %d machines, want 4", got)
	}
	_, err := holdfastv1.NewOperatorServiceClient(follower.Conn).TransferLeadership(t.Context(),
		&holdfastv1.TransferLeadershipRequest{})
	if status.Code(err) != codes.Unavailable || reason(err) != outcome.ReasonOutcomeUnknown || d.moved != 1 {
		t.Errorf("a call with an effect outside of the state: got %v after %d calls, want outcome unknown after 1",
			err, d.moved)
	}
}

// A call whose answer was lost does not undo a later call, although its method declares that it may
// be repeated.
func TestSecondDeliveryUndoesNothing(t *testing.T) {
	t.Parallel()
	_, d, leader, follower := delivered(t)
	for i, via := range []*clustertest.Peer{leader, follower} {
		m, err := createNode(t.Context(), via, fmt.Sprintf("02:00:00:00:00:%02x", i+1))
		if err != nil {
			t.Fatal(err)
		}
		d.lose.Store(1)
		got, err := holdfastv1.NewNodeServiceClient(via.Conn).UpdateNode(t.Context(),
			&holdfastv1.UpdateNodeRequest{Id: m.GetMachineId(), Node: &holdfastv1.NodeRecord{Hostname: "first"}})
		if err != nil || got.GetLabels()["by"] != "first" {
			t.Errorf("through %s: got %v, %v, want the outcome of the first delivery", via.ID, got, err)
		}
		if now, _ := leader.FSM.View().Machine(m.GetMachineId()); now.GetLabels()["by"] != "another" {
			t.Errorf("through %s: got label %q, want that of the later call", via.ID, now.GetLabels()["by"])
		}
	}
}

// The leader dies after the commit and before its answer. The follower delivers the call to the
// next leader, and answers its caller.
func TestLeaderDiesBeforeItsAnswer(t *testing.T) {
	t.Parallel()
	c, d, leader, follower := delivered(t)
	d.block = make(chan struct{})
	t.Cleanup(func() { close(d.block) })
	d.lose.Store(1)
	type answer struct {
		m   *holdfastv1.Machine
		err error
	}
	got := make(chan answer, 1)
	go func() {
		m, err := createNode(t.Context(), follower, "02:00:00:00:00:01")
		got <- answer{m, err}
	}()
	clustertest.Eventually(t, 20*time.Second, "the commit on the follower", func() error {
		if n := machinesOf(follower); n != 1 {
			return fmt.Errorf("%d machines", n)
		}
		return nil
	})
	c.Kill(leader)
	a := <-got
	if a.err != nil {
		t.Fatal(a.err)
	}
	next := c.Leader()
	if _, ok := next.FSM.View().Machine(a.m.GetMachineId()); !ok || machinesOf(next) != 1 {
		t.Errorf("got machine %q of %d, want the only one", a.m.GetMachineId(), machinesOf(next))
	}
}

// A caller that repeats a call through another peer, because its peer has died, names it: the call
// has its effect once and undoes no later one.
func TestCallRepeatedByItsCaller(t *testing.T) {
	t.Parallel()
	_, d, leader, follower := delivered(t)
	named := func(id byte, age int) context.Context {
		return metadata.AppendToOutgoingContext(t.Context(), call.HeaderCall,
			fmt.Sprintf("%s;%d", base64.RawURLEncoding.EncodeToString(bytes.Repeat([]byte{id}, 16)), age))
	}
	first, err := createNode(named(1, 0), leader, "02:00:00:00:00:01")
	if err != nil {
		t.Fatal(err)
	}
	again, err := createNode(named(1, 1500), follower, "02:00:00:00:00:01")
	if err != nil || again.GetMachineId() != first.GetMachineId() {
		t.Errorf("repeated: got %s, %v, want %s", again.GetMachineId(), err, first.GetMachineId())
	}
	if _, err := createNode(named(2, 0), follower, "02:00:00:00:00:02"); err != nil || machinesOf(leader) != 2 {
		t.Errorf("another call: got %v and %d machines, want 2", err, machinesOf(leader))
	}
	label := func(ctx context.Context, via *clustertest.Peer, to string) string {
		m, err := holdfastv1.NewNodeServiceClient(via.Conn).UpdateNode(ctx,
			&holdfastv1.UpdateNodeRequest{Id: first.GetMachineId(), Node: &holdfastv1.NodeRecord{Hostname: to}})
		if err != nil {
			t.Fatal(err)
		}
		return m.GetLabels()["by"]
	}
	label(named(3, 0), leader, "mine")
	label(t.Context(), leader, "another")
	got := label(named(3, 900), follower, "mine")
	if now, _ := leader.FSM.View().Machine(first.GetMachineId()); got != "mine" || now.GetLabels()["by"] != "another" {
		t.Errorf("repeated after another's change: got %q and the label %q, want the first outcome and another's label",
			got, now.GetLabels()["by"])
	}
	d.lose.Store(1)
	if _, err := createNode(named(4, 0), follower, "02:00:00:00:00:04"); err != nil || machinesOf(leader) != 3 {
		t.Errorf("lost answer: got %v and %d machines, want 3", err, machinesOf(leader))
	}
	const good = "AAAAAAAAAAAAAAAAAAAAAA"
	for _, wrong := range []string{"", "x", good, good + ";", good + ";-1", good + ";9999999999999", "AAAA;0",
		good + ";0;1"} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), call.HeaderCall, wrong)
		if _, err := createNode(ctx, follower, "02:00:00:00:00:05"); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s %q: got %v, want INVALID_ARGUMENT", call.HeaderCall, wrong, err)
		}
	}
	if got := machinesOf(leader); got != 3 {
		t.Errorf("got %d machines, want 3", got)
	}
}
