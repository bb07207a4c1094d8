package demo

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// inFlight is the maximum number of concurrent calls.
const inFlight = 64

// register registers all machines.
func (s *story) register(ctx context.Context) error {
	return s.each(ctx, func(ctx context.Context, m *holdfastv1.Machine) error {
		if _, err := s.client.Machines().RegisterMachine(ctx, &holdfastv1.RegisterMachineRequest{Machine: m}); err != nil {
			return fmt.Errorf("register machine %s: %w", m.GetMachineId(), err)
		}
		return nil
	})
}

// start starts a run on each machine. Its request ids make retries safe, also with another leader.
func (s *story) start(ctx context.Context) error {
	return s.each(ctx, func(ctx context.Context, m *holdfastv1.Machine) error {
		_, err := s.client.Runs().StartRun(ctx, &holdfastv1.StartRunRequest{
			RequestId: "demo-" + m.GetMachineId(), MachineId: m.GetMachineId(), Type: "REPAVE", PlanId: planID,
		})
		if err != nil {
			return fmt.Errorf("start the run of %s: %w", m.GetMachineId(), err)
		}
		return nil
	})
}

func (s *story) each(ctx context.Context, do func(context.Context, *holdfastv1.Machine) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(inFlight)
	for _, m := range s.machines {
		g.Go(func() error { return do(ctx, m) })
	}
	return g.Wait()
}

// follow updates the board with every event of a run.
func (s *story) follow(ctx context.Context) error {
	err := s.client.WatchRuns(ctx, "", 0, func(e *holdfastv1.RunEvent) error {
		s.board.run(e.GetSnapshot())
		return nil
	})
	if ctx.Err() != nil {
		return nil // the runs have ended
	}
	return fmt.Errorf("watch the runs: %w", err)
}

// record reads all runs.
func (s *story) record(ctx context.Context) ([]*holdfastv1.Run, error) {
	var all []*holdfastv1.Run
	req := &holdfastv1.ListRunsRequest{PageSize: 500}
	for {
		page, err := s.client.Runs().ListRuns(ctx, req)
		if err != nil {
			return nil, fmt.Errorf("list the runs: %w", err)
		}
		all = append(all, page.GetRuns()...)
		if req.PageToken = page.GetNextPageToken(); req.PageToken == "" {
			return all, nil
		}
	}
}
