package sshexec

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/internal/text"
)

//go:embed host/net.sh
var netScript string

// NetworkStatus returns the last network configuration that Holdfast applied to the host, and its
// outcome.
func (p *Provider) NetworkStatus(ctx context.Context, m providers.Machine) (providers.NetworkStatus, error) {
	op := "read the network status of " + m.GetMachineId()
	if err := ctx.Err(); err != nil {
		return providers.NetworkStatus{}, classify(op, err, providers.Timeout)
	}
	return read(ctx, p, op, m, func(_ context.Context, sh *shell) (s providers.NetworkStatus, err error) {
		err = sh.ask("hf_net_status\n", func(words []string) error {
			if len(words) != 4 || words[0] != "net" {
				return fmt.Errorf("%w: %q", errReply, text.Clip(strings.Join(words, " "), 100))
			}
			n, err := number(words[3], maxText)
			if err != nil {
				return err
			}
			if _, err := readBytes(sh.out, n); err != nil {
				return err
			}
			if words[2] != "none" {
				s = providers.NetworkStatus{
					Token:     words[1],
					Confirmed: words[2] == "confirmed",
					Reverted:  words[2] == "reverted",
				}
			}
			return nil
		})
		return s, err
	})
}

// ApplyNetwork makes the host apply a configuration (docs/hardware.md describes its form). The host
// reverts it unless it is confirmed within the rollback time: by a timer that is set before
// anything is changed, and at the next boot. Zero applies it permanently. The next call opens a new
// connection over the new path. With the same token, the host applies it only once.
func (p *Provider) ApplyNetwork(
	ctx context.Context, o providers.Op, m providers.Machine, config string, rollback time.Duration,
) error {
	op, token := "apply the network configuration of "+m.GetMachineId(), o.Token()
	if err := checkToken(op, token); err != nil {
		return err
	}
	manager, files, err := parseNet(config)
	if err != nil {
		return providers.Errorf(providers.Unsupported, op, "%w", err)
	}
	var list, contents strings.Builder
	for _, f := range files {
		fmt.Fprintf(&list, "%d %s\n", len(f.text), f.path)
		contents.WriteString(f.text)
	}
	after := "0"
	if rollback > 0 {
		after = fmt.Sprintf("%.3f", rollback.Seconds())
	}
	err = p.effect(ctx, op, m, startTime, func(ctx context.Context, sh *shell) error {
		nonce := rand.Text()
		stage := line("hf_stage", nonce, "root", len(netScript), list.Len(), contents.Len()) +
			netScript + list.String() + contents.String()
		if err := sh.ask(stage, only("ok")); err != nil {
			return err
		}
		until, err := sh.confirmed(ctx, op, nonce)
		if err != nil {
			return err
		}
		apply := line("hf_net_apply", token, nonce, until, until+latestStart, manager, after)
		return sh.ask(apply, only("ok"))
	})
	p.forgetMachine(m)
	if _, ok := errors.AsType[*broken](err); ok { // the change itself may have broken the connection
		return providers.Errorf(providers.Timeout, op, "%w", err)
	}
	return err
}

// ConfirmNetwork keeps a configuration. It sends the request over a new connection: one that is
// older than the change would prove nothing.
func (p *Provider) ConfirmNetwork(ctx context.Context, _ providers.Op, m providers.Machine, token string) error {
	op := "confirm the network configuration of " + m.GetMachineId()
	if err := checkToken(op, token); err != nil {
		return err
	}
	if err := providers.InTime(ctx, op); err != nil {
		return err
	}
	confirm := func() error {
		return p.effect(ctx, op, m, 0, func(ctx context.Context, sh *shell) error {
			if err := providers.InTime(ctx, op); err != nil {
				return err
			}
			old := false
			request := line("hf_net_confirm", token, rand.Text(), sh.until(ctx), sh.connected())
			err := sh.ask(request, func(words []string) error {
				old = len(words) == 1 && words[0] == "old"
				if old {
					return nil
				}
				return only("ok")(words)
			})
			if old {
				err = errOldPath
			}
			return err
		})
	}
	err := confirm()
	// The age of a connection is known to a few hundredths of a second plus the time that the host
	// needs to start a shell. Right after the change, even a new connection may seem too old.
	for _, pause := range []time.Duration{0, 200 * time.Millisecond, time.Second} {
		if !errors.Is(err, errOldPath) {
			break
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
		p.forgetMachine(m)
		err = confirm()
	}
	return err
}

// errOldPath means that a connection was opened before the network was changed.
var errOldPath = errors.New("the connection is older than the change")

func (p *Provider) forgetMachine(m providers.Machine) {
	if to, err := p.target("", m); err == nil {
		p.forget(to)
	}
}
