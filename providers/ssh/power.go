package sshexec

import (
	"context"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
)

// goDown makes a script that takes the host down, with systemd or without.
func goDown(systemctl, shutdown, fallback string) providers.Command {
	return providers.Command{
		Script:  "if [ -d /run/systemd/system ]; then exec systemctl " + systemctl + "; fi\nshutdown " + shutdown + " now 2>/dev/null || exec " + fallback + "\n",
		Timeout: time.Minute,
	}
}

// Reboot asks the host to reboot, under the op's token. That it has is seen by its boot id.
func (p *Provider) Reboot(ctx context.Context, op providers.Op, m providers.Machine) error {
	return p.StartCommand(ctx, op, m, op.Token(), goDown("reboot", "-r", "reboot"))
}

// Shutdown asks the host to end its services and power off, under the op's token. That it has is
// seen by the BMC.
func (p *Provider) Shutdown(ctx context.Context, op providers.Op, m providers.Machine) error {
	return p.StartCommand(ctx, op, m, op.Token(), goDown("poweroff", "-h", "poweroff"))
}
