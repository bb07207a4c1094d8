package sshexec

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
)

// inspectTime bounds the inspection of a host. A slower host counts as unreachable.
const inspectTime = 10 * time.Second

// Inspect returns facts about the host: whether a login works, its boot id, and the image named in
// /etc/holdfast/image. A host that does not answer is a fact, not an error. The facts about the BMC
// are unknown; a provider that combines this one with a BMC fills them in.
func (p *Provider) Inspect(ctx context.Context, m providers.Machine) (providers.Facts, error) {
	op := "inspect " + m.GetMachineId()
	f := providers.Facts{BMCReason: "NoBMC", BMCUnknown: true}
	short, stop := context.WithTimeout(ctx, inspectTime)
	defer stop()
	type seen struct{ boot, image string }
	s, err := read(short, p, op, m, func(_ context.Context, sh *shell) (s seen, err error) {
		err = sh.ask("hf_inspect\n", func(words []string) error {
			s.boot, s.image, err = readFacts(sh.out, words)
			return err
		})
		return s, err
	})
	if ctx.Err() != nil {
		return f, classify(op, ctx.Err(), providers.Timeout)
	}
	if err != nil {
		f.ReachableReason = reason(err)
		if why := providers.WhyNotAsked(err); why != "" {
			f.ReachableReason, f.ReachableUnknown = why, true
		}
		return f, nil //nolint:nilerr // the failure is the observation
	}
	f.Reachable, f.ReachableReason, f.BootID, f.Image = true, "SSHOK", s.boot, s.image
	return f, nil
}

// reason returns the reason why a host is unreachable, as conditions show it.
func reason(err error) string {
	var key *HostKeyError
	switch {
	case errors.As(err, &key) && len(key.Wanted) > 0:
		return "HostKeyMismatch"
	case errors.As(err, &key):
		return "HostKeyUnknown"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "ConnectionRefused"
	}
	switch providers.ClassOf(err) {
	case providers.Auth:
		return "LoginRefused"
	case providers.Timeout:
		return "NoAnswer"
	case providers.Unsupported:
		return "NotUsable"
	}
	return "ConnectionFailed"
}
