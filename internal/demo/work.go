package demo

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// begin registers each machine and starts a run on it. Its request ids make retries safe, also with
// another leader.
func (s *story) begin(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(64) // concurrent calls
	for _, m := range s.machines {
		g.Go(func() error {
			id := m.GetMachineId()
			_, err := s.peers.client.Machines().RegisterMachine(ctx, &holdfastv1.RegisterMachineRequest{Machine: m})
			if err == nil {
				_, err = s.peers.client.Runs().StartRun(ctx, &holdfastv1.StartRunRequest{
					RequestId: "demo-" + id, MachineId: id, Type: "REPAVE", PlanId: planID,
				})
			}
			if err != nil {
				return fmt.Errorf("register machine %s and start its run: %w", id, err)
			}
			return nil
		})
	}
	return g.Wait()
}

// follow counts every event of a run, until ctx ends.
func (s *story) follow(ctx context.Context) error {
	err := s.peers.client.WatchRuns(ctx, "", 0, func(e *holdfastv1.RunEvent) error {
		s.progress.run(e.GetSnapshot())
		return nil
	})
	if ctx.Err() != nil {
		return nil // the runs have ended
	}
	return fmt.Errorf("watch the runs: %w", err)
}

// failover is the result of killing the leader.
type failover struct {
	killed, leader string        // peer ids
	took           time.Duration // from SIGKILL to the first write that was acknowledged again
	at             string        // the progress at that time, in words
}

// killLeader kills the leader and retries a write until another peer acknowledges it: a label of a
// machine with an active run.
func (s *story) killLeader(ctx context.Context) (f failover, err error) {
	ctx, stop := context.WithTimeout(ctx, 30*time.Second)
	defer stop()
	victim, err := s.peers.Leader(ctx)
	if err != nil {
		return f, err
	}
	f.killed, f.at = victim.ID, s.progress.steps()
	killedAt := time.Now()
	s.peers.victim.Store(victim)
	if err := victim.Kill(); err != nil {
		return f, fmt.Errorf("kill the leader: %w", err)
	}
	s.progress.say("leader %s killed with SIGKILL at %s", f.killed, f.at)
	_, err = s.peers.client.Machines().UpdateMachine(ctx, &holdfastv1.UpdateMachineRequest{
		Machine: &holdfastv1.Machine{MachineId: s.machines[0].GetMachineId(),
			Labels: map[string]string{"outlived": f.killed}},
		UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"labels.outlived"}},
	})
	f.took = time.Since(killedAt)
	if err != nil {
		return f, fmt.Errorf("write after leader %s was killed: %w", f.killed, err)
	}
	leader, err := s.peers.Leader(ctx)
	if err != nil {
		return f, err
	}
	f.leader = leader.ID
	s.progress.say("%s leads: writes paused for %d ms", f.leader, f.took.Milliseconds())
	return f, nil
}

// record reads all runs.
func (s *story) record(ctx context.Context) ([]*holdfastv1.Run, error) {
	var all []*holdfastv1.Run
	req := &holdfastv1.ListRunsRequest{PageSize: 500}
	for {
		page, err := s.peers.client.Runs().ListRuns(ctx, req)
		if err != nil {
			return nil, fmt.Errorf("list the runs: %w", err)
		}
		all = append(all, page.GetRuns()...)
		if req.PageToken = page.GetNextPageToken(); req.PageToken == "" {
			return all, nil
		}
	}
}
