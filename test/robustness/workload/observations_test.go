package workload

import (
	"context"
	"testing"

	"google.golang.org/grpc"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// emptyFleet returns empty lists.
type emptyFleet struct {
	holdfastv1.MachineServiceClient
	holdfastv1.PoolServiceClient
	holdfastv1.RegistryServiceClient
}

func (emptyFleet) ListMachines(
	context.Context, *holdfastv1.ListMachinesRequest, ...grpc.CallOption,
) (*holdfastv1.ListMachinesResponse, error) {
	return &holdfastv1.ListMachinesResponse{}, nil
}

func (emptyFleet) ListPools(
	context.Context, *holdfastv1.ListPoolsRequest, ...grpc.CallOption,
) (*holdfastv1.ListPoolsResponse, error) {
	return &holdfastv1.ListPoolsResponse{}, nil
}

func (emptyFleet) ListServices(
	context.Context, *holdfastv1.ListServicesRequest, ...grpc.CallOption,
) (*holdfastv1.ListServicesResponse, error) {
	return &holdfastv1.ListServicesResponse{}, nil
}

// TestObservationsOfEmptyFleet checks that a read of an empty fleet differs from no read.
func TestObservationsOfEmptyFleet(t *testing.T) {
	r := &Recorder{peers: []peer{{machines: emptyFleet{}, pools: emptyFleet{}, services: emptyFleet{}}}}
	got, err := r.observeAll(t.Context(), names{})
	if err != nil || got == nil || len(got) != 0 {
		t.Errorf("got %#v (%v), want an empty list that is not nil", got, err)
	}
}
