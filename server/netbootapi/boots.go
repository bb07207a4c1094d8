package netbootapi

import (
	"context"

	"google.golang.org/grpc"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Boots asks InstallService what a machine is to boot, as its boot script does.
type Boots struct {
	rpc holdfastv1.InstallServiceClient
}

// NewBoots makes one that calls through rpc.
func NewBoots(rpc grpc.ClientConnInterface) *Boots {
	return &Boots{rpc: holdfastv1.NewInstallServiceClient(rpc)}
}

// Boots reports what the machine with a MAC address is to boot. Nothing is changed by it: there is
// no token in the answer, and nobody is discovered.
func (b *Boots) Boots(ctx context.Context, mac, arch string) (*holdfastv1.BootMachineResponse, error) {
	return b.rpc.LookUpBoot(ctx, &holdfastv1.BootMachineRequest{Mac: mac, Arch: arch})
}
