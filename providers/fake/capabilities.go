package fake

import (
	"context"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
)

// get performs an operation that only reads.
func get[T any](ctx context.Context, p *Provider, name string, m providers.Machine, args any) (T, error) {
	var t T
	err := p.call(ctx, name, providers.Op{}, m, args, &t)
	return t, err
}

// Inspect returns facts about host and BMC. A BMC that does not answer is a fact, not an error.
func (p *Provider) Inspect(ctx context.Context, m providers.Machine) (providers.Facts, error) {
	return get[providers.Facts](ctx, p, opInspect, m, nil)
}

// Health returns the broken parts, from the faults in force.
func (p *Provider) Health(ctx context.Context, m providers.Machine) (providers.Health, error) {
	return get[providers.Health](ctx, p, opHealth, m, nil)
}

// PowerState reads the power state from the BMC.
func (p *Provider) PowerState(ctx context.Context, m providers.Machine) (providers.PowerState, error) {
	return get[providers.PowerState](ctx, p, opPowerState, m, nil)
}

// SetPower presses a power button.
func (p *Provider) SetPower(
	ctx context.Context, op providers.Op, m providers.Machine, a providers.PowerAction,
) error {
	if a == providers.ActionOn {
		return p.call(ctx, opPowerOn, op, m, nil, nil)
	}
	return p.call(ctx, opPowerOff, op, m, struct{ Action providers.PowerAction }{a}, nil)
}

// BootDevice returns the next boot device of the machine.
func (p *Provider) BootDevice(ctx context.Context, m providers.Machine) (providers.BootDevice, error) {
	return get[providers.BootDevice](ctx, p, opBootDevice, m, nil)
}

// SetBootDevice sets the next boot device of the machine, once or permanently.
func (p *Provider) SetBootDevice(
	ctx context.Context, op providers.Op, m providers.Machine, d providers.BootDevice,
) error {
	return p.call(ctx, opSetBoot, op, m, d, nil)
}

// Media returns the URL of the inserted virtual media, or "".
func (p *Provider) Media(ctx context.Context, m providers.Machine) (string, error) {
	return get[string](ctx, p, opMedia, m, nil)
}

// InsertMedia inserts virtual media.
func (p *Provider) InsertMedia(ctx context.Context, op providers.Op, m providers.Machine, url string) error {
	return p.call(ctx, opInsertMedia, op, m, mediaArgs{url}, nil)
}

// EjectMedia ejects virtual media.
func (p *Provider) EjectMedia(ctx context.Context, op providers.Op, m providers.Machine) error {
	return p.call(ctx, opEjectMedia, op, m, nil, nil)
}

// StartInstall starts an install or a wipe under the op's token.
func (p *Provider) StartInstall(
	ctx context.Context, op providers.Op, m providers.Machine, s providers.InstallSpec,
) error {
	return p.call(ctx, opInstall, op, m, imageArgs{s}, nil)
}

// InstallStatus returns the state of an install.
func (p *Provider) InstallStatus(
	ctx context.Context, m providers.Machine, token string,
) (providers.InstallStatus, error) {
	return get[providers.InstallStatus](ctx, p, opInstallStatus, m, tokenArgs{token})
}

// StartCommand starts a command on the host.
func (p *Provider) StartCommand(
	ctx context.Context, op providers.Op, m providers.Machine, token string, c providers.Command,
) error {
	return p.call(ctx, opStartCommand, op, m, commandArgs{token, c}, nil)
}

// CommandStatus returns the state of a command, with its output from an offset on.
func (p *Provider) CommandStatus(
	ctx context.Context, m providers.Machine, token string, offset int64,
) (providers.CommandStatus, error) {
	return get[providers.CommandStatus](ctx, p, opCommandStatus, m, outputArgs{token, offset})
}

// KillCommand ends a command.
func (p *Provider) KillCommand(ctx context.Context, op providers.Op, m providers.Machine, token string) error {
	return p.call(ctx, opKillCommand, op, m, tokenArgs{token}, nil)
}

// NodeStatus returns the state of the machine's node in the cluster.
func (p *Provider) NodeStatus(
	ctx context.Context, m providers.Machine, clusterRef string,
) (providers.NodeStatus, error) {
	return get[providers.NodeStatus](ctx, p, opNodeStatus, m, clusterArgs{clusterRef})
}

// StartJoin starts to join the host to a cluster under the op's token.
func (p *Provider) StartJoin(ctx context.Context, op providers.Op, m providers.Machine, s providers.JoinSpec) error {
	return p.call(ctx, opStartJoin, op, m, s, nil)
}

// JoinStatus returns the state of a join, and why it failed.
func (p *Provider) JoinStatus(
	ctx context.Context, m providers.Machine, token string,
) (providers.WorkState, string, error) {
	a, err := get[joinAnswer](ctx, p, opJoinStatus, m, tokenArgs{token})
	return a.State, a.Detail, err
}

// NetworkStatus returns the network configuration of the host.
func (p *Provider) NetworkStatus(ctx context.Context, m providers.Machine) (providers.NetworkStatus, error) {
	return get[providers.NetworkStatus](ctx, p, opNetworkStatus, m, nil)
}

// ApplyNetwork applies a network configuration under the op's token. It is rolled back unless it is
// confirmed within the rollback time.
func (p *Provider) ApplyNetwork(
	ctx context.Context, op providers.Op, m providers.Machine, config string, rollback time.Duration,
) error {
	return p.call(ctx, opApplyNetwork, op, m, networkArgs{config, int64(rollback)}, nil)
}

// ConfirmNetwork keeps an applied network configuration.
func (p *Provider) ConfirmNetwork(ctx context.Context, op providers.Op, m providers.Machine, token string) error {
	return p.call(ctx, opConfirmNetwork, op, m, tokenArgs{token}, nil)
}
