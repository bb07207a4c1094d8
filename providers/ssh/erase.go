package sshexec

import (
	"context"
	_ "embed"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
)

//go:embed host/erase.sh
var eraseScript string

var _ providers.Eraser = (*Provider)(nil)

// Erase makes the host erase all of its disks, with a command under the op's token. It returns an
// error if the host might not be the machine's. The host key must be pinned. In addition, the key
// must come from the inventory, or the host must have one of the machine's MAC addresses: a key
// pinned at first sight only proves that the host is the one that was seen first.
func (p *Provider) Erase(ctx context.Context, o providers.Op, m providers.Machine, most time.Duration) error {
	op := "erase the disks of " + m.GetMachineId()
	keys, err := p.keys.Get(ctx, m.GetMachineId())
	if err != nil {
		return providers.Errorf(providers.Transient, op, "read the pinned host key: %w", err)
	}
	spec := m.GetSpec()
	switch {
	case len(keys) == 0:
		return providers.Errorf(providers.Unsupported, op,
			"no host key is pinned: nothing proves that the host at %s is the machine", spec.GetSshEndpoint())
	case len(spec.GetSshHostKeys()) == 0 && len(spec.GetMacAddresses()) == 0:
		return providers.Errorf(providers.Unsupported, op, "the inventory has neither a host key nor a "+
			"MAC address: nothing proves that the host at %s is the machine", spec.GetSshEndpoint())
	}
	c := providers.Command{Script: eraseScript, Timeout: most}
	if macs := spec.GetMacAddresses(); len(macs) > 0 {
		c.Env = map[string]string{"HOLDFAST_MACS": strings.Join(macs, " ")}
	}
	return p.StartCommand(ctx, o, m, o.Token(), c)
}
