package clustertest

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-metal/holdfast/cluster"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// machines is a minimal service with a write and a read.
type machines struct {
	holdfastv1.UnimplementedMachineServiceServer
	holdfastv1.UnimplementedClusterServiceServer
	n *cluster.Peer
}

func registerMachines(s grpc.ServiceRegistrar, n *cluster.Peer) {
	m := machines{n: n}
	holdfastv1.RegisterMachineServiceServer(s, m)
	holdfastv1.RegisterClusterServiceServer(s, m)
}

// RegisterMachine commits a machine.
func (m machines) RegisterMachine(
	ctx context.Context,
	req *holdfastv1.RegisterMachineRequest,
) (*holdfastv1.Machine, error) {
	res, err := m.n.Apply(ctx, Register(req.GetMachine().GetMachineId()))
	if err != nil {
		return nil, err
	}
	return res.Value.(*holdfastv1.Machine), nil
}

// GetMachine reads a machine.
func (m machines) GetMachine(ctx context.Context, req *holdfastv1.GetMachineRequest) (*holdfastv1.Machine, error) {
	v, err := m.n.View(ctx)
	if err != nil {
		return nil, err
	}
	got, ok := v.Machine(req.GetMachineId())
	if !ok {
		return nil, status.Errorf(codes.NotFound, "machine %s not found", req.GetMachineId())
	}
	return got, nil
}

// GetClusterStatus returns the status of the cluster.
func (m machines) GetClusterStatus(
	ctx context.Context,
	_ *holdfastv1.GetClusterStatusRequest,
) (*holdfastv1.ClusterStatus, error) {
	return m.n.Status(ctx), nil
}

// Register returns the command that registers a machine.
func Register(id string) *internalv1.Command {
	return &internalv1.Command{
		Principal: "test",
		Op: &internalv1.Command_RegisterMachine{RegisterMachine: &internalv1.RegisterMachine{
			Machine: &holdfastv1.Machine{MachineId: id, Spec: &holdfastv1.MachineSpec{}},
		}},
	}
}

// Machines returns a client of the peer's MachineService.
func (p *Peer) Machines() holdfastv1.MachineServiceClient {
	p.mu.Lock() // the peer may be restarting
	defer p.mu.Unlock()
	return holdfastv1.NewMachineServiceClient(p.Conn)
}
