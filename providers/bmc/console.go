package bmc

import (
	"cmp"
	"context"
	"io"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc/internal/access"
)

// OpenConsole opens the serial console of the machine over IPMI (serial over LAN). It works for a
// machine that is driven over Redfish too, because Redfish has no console. A BMC has one console
// at a time. It is closed when ctx ends.
func (p *Provider) OpenConsole(ctx context.Context, m providers.Machine) (io.ReadWriteCloser, error) {
	what := "open the console of " + m.GetMachineId()
	if by := Protocol(cmp.Or(m.GetLabels()[ProtocolLabel], string(p.cfg.Protocol))); by == Redfish {
		return nil, providers.Errorf(providers.Unsupported, what,
			"the console needs IPMI, and the protocol of this machine is set to redfish")
	}
	e, c, err := p.find(ctx, m, what)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	taken := c.console
	c.console = true
	c.mu.Unlock()
	if taken {
		return nil, providers.Errorf(providers.Transient, what, "the console is already open: close it first")
	}
	free := func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.console = false
	}
	h := c.ipmiOf(m, e)
	var con io.ReadWriteCloser
	err = c.guarded(ctx, what, func() error {
		con, err = h.OpenConsole(ctx, free)
		return access.Classify(what, err, false)
	})
	if err != nil {
		free()
		return nil, err
	}
	return con, nil
}
