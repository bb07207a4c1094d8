package fleet

import (
	"context"
	"testing"

	"google.golang.org/grpc"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// racked returns machines with 2 CPUs of 16 cores, and one whose hardware is unknown.
type racked struct {
	holdfastv1.MachineServiceClient
	n int
}

func (r racked) ListMachines(
	context.Context, *holdfastv1.ListMachinesRequest, ...grpc.CallOption,
) (*holdfastv1.ListMachinesResponse, error) {
	resp := &holdfastv1.ListMachinesResponse{}
	for range r.n {
		resp.Machines = append(resp.Machines, &holdfastv1.Machine{HardwareSummary: &holdfastv1.HardwareSummary{
			Cpus: new(int32(2)), Cores: new(int32(32)), MemoryBytes: new(int64(64 << 30)),
			Disks: new(int32(1)), DiskBytes: new(int64(1 << 40))}})
	}
	resp.Machines = append(resp.Machines, &holdfastv1.Machine{})
	return resp, nil
}

func TestSum(t *testing.T) {
	for _, tt := range []struct {
		n, most int
		want    string
		all     bool
	}{
		{0, 10, "", true},
		{1, 10, "2 CPUs, 32 cores, 64 GiB of memory, 1 disk, 1.0 TiB of disk space; the hardware of 1 is unknown", true},
		{40, 100, "80 CPUs, 1 280 cores, 2.5 TiB of memory, 40 disks, 40.0 TiB of disk space" +
			"; the hardware of 1 is unknown", true},
		{9, 10, "18 CPUs, 288 cores, 576 GiB of memory, 9 disks, 9.0 TiB of disk space; the hardware of 1 is unknown", true},
		{9, 2, "4 CPUs, 64 cores, 128 GiB of memory, 2 disks, 2.0 TiB of disk space", false},
	} {
		h, all, err := Sum(t.Context(), racked{n: tt.n}, "", tt.most)
		if h.String() != tt.want || all != tt.all || err != nil {
			t.Errorf("%d machines: got %q, %t, %v, want %q, %t", tt.n, h, all, err, tt.want, tt.all)
		}
	}
}
