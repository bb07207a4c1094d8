package final

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/test/robustness/workload"
)

// fleet reads the records of the clients of leases, and the existing pools and plans.
func (f *Record) fleet(ctx context.Context, h *workload.History, c *grpc.ClientConn) error {
	f.Declared, f.Agents = map[string]bool{}, map[string]*holdfastv1.Machine{}
	if err := f.declared(ctx, c); err != nil {
		return err
	}
	if h.Fleet == nil {
		return nil
	}
	for _, l := range h.Fleet.Clients {
		if l.Holder != workload.Machine {
			continue
		}
		for _, id := range l.IDs() {
			if err := f.agent(ctx, id, holdfastv1.NewMachineServiceClient(c)); err != nil {
				return err
			}
		}
	}
	for token := ""; ; {
		page, err := holdfastv1.NewRegistryServiceClient(c).ListServices(ctx,
			&holdfastv1.ListServicesRequest{PageSize: 1000, PageToken: token})
		if err != nil {
			return fmt.Errorf("list services: %w", err)
		}
		f.Services = append(f.Services, page.GetServices()...)
		if token = page.GetNextPageToken(); token == "" {
			return nil
		}
	}
}

// agent reads a machine and its history at the same revision. A missing machine is omitted.
func (f *Record) agent(ctx context.Context, id string, c holdfastv1.MachineServiceClient) error {
	for {
		var both [2]*holdfastv1.Machine
		for i := range both {
			m, err := c.GetMachine(ctx, &holdfastv1.GetMachineRequest{MachineId: id})
			if status.Code(err) == codes.NotFound {
				return nil
			}
			if err != nil {
				return fmt.Errorf("read machine %s: %w", id, err)
			}
			both[i] = m
			if i == 0 {
				if f.History[id], err = entries(ctx, id, c); err != nil {
					return err
				}
			}
		}
		if both[0].GetRevision() == both[1].GetRevision() {
			f.Agents[id] = both[0]
			return nil
		}
	}
}

func (f *Record) declared(ctx context.Context, c *grpc.ClientConn) error {
	for token := ""; ; {
		page, err := holdfastv1.NewPoolServiceClient(c).ListPools(ctx,
			&holdfastv1.ListPoolsRequest{PageSize: 1000, PageToken: token})
		if err != nil {
			return fmt.Errorf("list pools: %w", err)
		}
		for _, p := range page.GetPools() {
			f.Declared[p.GetPoolId()] = true
		}
		if token = page.GetNextPageToken(); token == "" {
			break
		}
	}
	for token := ""; ; {
		page, err := holdfastv1.NewPlanServiceClient(c).ListPlans(ctx,
			&holdfastv1.ListPlansRequest{PageSize: 1000, PageToken: token})
		if err != nil {
			return fmt.Errorf("list plans: %w", err)
		}
		for _, p := range page.GetPlans() {
			f.Declared[p.GetPlanId()] = true
		}
		if token = page.GetNextPageToken(); token == "" {
			return nil
		}
	}
}
