package fleet

import (
	"context"

	"google.golang.org/grpc"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// pageSize is the maximum page size of lists.
const pageSize = 1000

// Lister lists machines.
type Lister interface {
	ListMachines(
		context.Context, *holdfastv1.ListMachinesRequest, ...grpc.CallOption,
	) (*holdfastv1.ListMachinesResponse, error)
}

// Each calls f for all machines that match, until it returns false.
func Each(ctx context.Context, c Lister, filter string, f func(*holdfastv1.Machine) bool) error {
	r := &holdfastv1.ListMachinesRequest{Filter: filter, PageSize: pageSize}
	for {
		page, err := c.ListMachines(ctx, r)
		if err != nil {
			return err
		}
		for _, m := range page.GetMachines() {
			if !f(m) {
				return nil
			}
		}
		if page.GetNextPageToken() == "" {
			return nil
		}
		r = &holdfastv1.ListMachinesRequest{Filter: filter, PageSize: pageSize, PageToken: page.GetNextPageToken()}
	}
}
