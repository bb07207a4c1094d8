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

// Erase has the host erase all of its disks, as a command under the op's token. It refuses where
// the host could be another one than the machine's: its key has to be pinned, and either that key
// comes from the inventory, or the host has one of the machine's MAC addresses. A key that was
// taken at first sight says that it is the host that was seen first, and no more.
func (p *Provider) Erase(ctx context.Context, o providers.Op, m providers.Machine, most time.Duration) error {
	op := "erase the disks of " + m.GetMachineId()
	keys, err := p.keys.Get(ctx, m.GetMachineId())
	if err != nil {
		return providers.Errorf(providers.Transient, op, "look up its host key: %w", err)
	}
	spec := m.GetSpec()
	switch {
	case len(keys) == 0:
		return providers.Errorf(providers.Unsupported, op, "no key of its host is pinned: nothing proves that the host at %s is the machine", spec.GetSshEndpoint())
	case len(spec.GetSshHostKeys()) == 0 && len(spec.GetMacAddresses()) == 0:
		return providers.Errorf(providers.Unsupported, op, "the inventory has neither a key of its host nor a MAC address: nothing proves that the host at %s is the machine", spec.GetSshEndpoint())
	}
	c := providers.Command{Script: eraseScript, Timeout: most}
	if macs := spec.GetMacAddresses(); len(macs) > 0 {
		c.Env = map[string]string{"HOLDFAST_MACS": strings.Join(macs, " ")}
	}
	return p.StartCommand(ctx, o, m, o.Token(), c)
}
