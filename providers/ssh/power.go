package sshexec

import (
	"context"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
)

// goDown returns a script that takes the host down, with or without systemd.
func goDown(systemctl, shutdown, fallback string) providers.Command {
	return providers.Command{
		Script: "if [ -d /run/systemd/system ]; then exec systemctl " + systemctl + "; fi\n" +
			"shutdown " + shutdown + " now 2>/dev/null || exec " + fallback + "\n",
		Timeout: time.Minute,
	}
}

// Reboot asks the host to reboot, under the op's token. A new boot id shows that it has.
func (p *Provider) Reboot(ctx context.Context, op providers.Op, m providers.Machine) error {
	return p.StartCommand(ctx, op, m, op.Token(), goDown("reboot", "-r", "reboot"))
}

// Shutdown asks the host to stop its services and power off, under the op's token. The BMC shows
// when it has.
func (p *Provider) Shutdown(ctx context.Context, op providers.Op, m providers.Machine) error {
	return p.StartCommand(ctx, op, m, op.Token(), goDown("poweroff", "-h", "poweroff"))
}
