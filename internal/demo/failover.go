package demo

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/localcluster"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// failover is the result of killing the leader.
type failover struct {
	killed, leader string        // peer ids
	took           time.Duration // from SIGKILL to the first write that was acknowledged again
	at             string        // the progress at that time, in words
}

// failoverTimeout bounds the time without an acknowledged write.
const failoverTimeout = 30 * time.Second

// failover kills the leader and retries a write at the other peers until it is acknowledged: a
// label of a machine with an active run.
func (s *story) failover(ctx context.Context) (failover, error) {
	ctx, stop := context.WithTimeout(ctx, failoverTimeout)
	defer stop()
	victim, err := s.cluster.Leader(ctx)
	if err != nil {
		return failover{}, err
	}
	survivors, err := client.Dial(client.Config{Addrs: s.others(victim), TLS: s.cluster.TLS(),
		Timeout: failoverTimeout})
	if err != nil {
		return failover{}, fmt.Errorf("connect to the peers besides %s: %w", victim.ID, err)
	}
	defer func() { _ = survivors.Close() }() // its calls are over
	// Connect before the measurement.
	if _, err := survivors.Cluster().GetClusterStatus(ctx, &holdfastv1.GetClusterStatusRequest{}); err != nil {
		return failover{}, fmt.Errorf("ask a peer besides %s for its status: %w", victim.ID, err)
	}

	done, total := s.board.progress()
	f := failover{killed: victim.ID, at: fmt.Sprintf("%d of %d steps", done, total)}
	s.expectDead(victim.ID)
	killedAt := time.Now()
	if err := victim.Kill(); err != nil {
		return failover{}, fmt.Errorf("kill the leader: %w", err)
	}
	s.board.died(victim.ID, f.at)

	_, err = survivors.Machines().UpdateMachine(ctx, &holdfastv1.UpdateMachineRequest{
		Machine: &holdfastv1.Machine{MachineId: s.machines[0].GetMachineId(),
			Labels: map[string]string{"outlived": victim.ID}},
		UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"labels.outlived"}},
	})
	f.took = time.Since(killedAt)
	if err != nil {
		return f, fmt.Errorf("write after leader %s was killed: %w", victim.ID, err)
	}
	leader, err := s.cluster.Leader(ctx)
	if err != nil {
		return f, err
	}
	f.leader = leader.ID
	s.board.succeeded(victim.ID, leader.ID, f.took)
	return f, nil
}

// others returns the addresses of the peers except one.
func (s *story) others(but *localcluster.Peer) []string {
	return slices.DeleteFunc(s.cluster.Addrs(), func(addr string) bool { return addr == but.GRPCAddr })
}
