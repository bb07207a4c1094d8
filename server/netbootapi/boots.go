package netbootapi

import (
	"context"

	"google.golang.org/grpc"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Boots asks InstallService what a machine should boot, like the machine's boot script
// does.
type Boots struct {
	rpc holdfastv1.InstallServiceClient
}

// NewBoots returns a Boots that calls InstallService through rpc.
func NewBoots(rpc grpc.ClientConnInterface) *Boots {
	return &Boots{rpc: holdfastv1.NewInstallServiceClient(rpc)}
}

// Boots returns the boot action for the machine with a MAC address. The call has no side
// effects: the answer contains no token, and unknown machines are not registered.
func (b *Boots) Boots(ctx context.Context, mac, arch string) (*holdfastv1.BootMachineResponse, error) {
	return b.rpc.LookUpBoot(ctx, &holdfastv1.BootMachineRequest{Mac: mac, Arch: arch})
}
