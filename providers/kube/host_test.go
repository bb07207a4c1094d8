package kube_test

import (
	"context"
	"sync"

	"github.com/holdfast-metal/holdfast/providers"
)

// host runs nothing: it records the commands, and ends them as the test specifies.
type host struct {
	mu      sync.Mutex
	scripts map[string]string
	status  map[string]providers.CommandStatus
	killed  []string
	end     func(script string) providers.CommandStatus // nil: commands do not end
}

func newHost() *host {
	return &host{scripts: map[string]string{}, status: map[string]providers.CommandStatus{}}
}

func (h *host) StartCommand(
	ctx context.Context, _ providers.Op, _ providers.Machine, token string, c providers.Command,
) error {
	if err := providers.InTime(ctx, "start"); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, again := h.scripts[token]; again {
		return nil
	}
	h.scripts[token], h.status[token] = c.Script, providers.CommandStatus{State: providers.WorkRunning}
	if h.end != nil {
		h.status[token] = h.end(c.Script)
	}
	return nil
}

func (h *host) CommandStatus(
	_ context.Context, _ providers.Machine, token string, _ int64,
) (providers.CommandStatus, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s, ok := h.status[token]; ok {
		return s, nil
	}
	return providers.CommandStatus{State: providers.WorkNone}, nil
}

func (h *host) KillCommand(_ context.Context, _ providers.Op, _ providers.Machine, token string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.killed = append(h.killed, token)
	h.status[token] = providers.CommandStatus{State: providers.WorkFailed}
	return nil
}

func (h *host) script(token string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.scripts[token]
}
