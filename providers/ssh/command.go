package sshexec

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/internal/text"
)

const (
	// maxOutput bounds the output in one answer.
	maxOutput = 256 << 10
	// latestStart is how long after its not-after time a command may begin, by the host's clock,
	// in hundredths of a second.
	latestStart = 200
	// startTime bounds the start of a command on the host. findTime bounds the search for the
	// result of a start.
	startTime = 15 * time.Second
	findTime  = time.Minute
)

func checkToken(op, token string) error {
	if !tokenOK.MatchString(token) {
		return providers.Errorf(providers.Unsupported, op,
			"token %q: want 1 to 200 letters, digits, dots, dashes, colons", text.Clip(token, 220))
	}
	return nil
}

// StartCommand starts a command under a token. It returns nil if the command has begun, now or
// earlier. An error means that this call has not started it and will not, unless the class is
// Timeout or ctx has ended.
func (p *Provider) StartCommand(
	ctx context.Context, _ providers.Op, m providers.Machine, token string, c providers.Command,
) error {
	op := "start " + token + " on " + m.GetMachineId()
	if err := checkToken(op, token); err != nil {
		return err
	}
	j, err := newJob(c)
	if err != nil {
		return providers.Errorf(providers.Unsupported, op, "%w", err)
	}
	err = p.effect(ctx, op, m, startTime, func(ctx context.Context, sh *shell) error {
		return p.launch(ctx, sh, op, token, j)
	})
	if lost, ok := errors.AsType[*lostError](err); ok && ctx.Err() == nil {
		return p.findOut(ctx, op, m, token, lost)
	}
	return err
}

// launch stages a job, which changes nothing, and then starts it.
func (p *Provider) launch(ctx context.Context, sh *shell, op, token string, j job) error {
	nonce := rand.Text()
	stage := line("hf_stage", nonce, j.user, len(supervisorScript), len(j.text), len(j.script)) +
		supervisorScript + j.text + j.script
	if err := sh.ask(stage, only("ok")); err != nil {
		return err
	}
	until, err := sh.confirmed(ctx, op, nonce)
	if err != nil {
		return err
	}
	latest := until + latestStart
	request := line("hf_start", token, nonce, until, latest, j.user, j.timeout, p.blocks(), p.grace())
	err = sh.ask(request, only("ok"))
	if _, ok := errors.AsType[*broken](err); ok {
		return &lostError{err, sh.boot, latest}
	}
	return err
}

// blocks returns the cap of the output in the unit of ulimit -f.
func (p *Provider) blocks() int64 { return (p.cfg.OutputCap + 511) / 512 }

// grace returns the time between TERM and KILL in seconds.
func (p *Provider) grace() int64 {
	return int64(max(time.Second, time.Duration(p.cfg.KillGrace)).Round(time.Second) / time.Second)
}

// lostError means that the connection was lost during the start of a command.
type lostError struct {
	error
	boot   string // of the host
	latest int64  // by the host's clock: the command does not begin later
}

func (l *lostError) Unwrap() error { return l.error }

// findOut asks a host whether a command has begun, until it has or until it is too late to begin.
func (p *Provider) findOut(
	ctx context.Context, op string, m providers.Machine, token string, lost *lostError,
) error {
	ctx, stop := context.WithTimeout(ctx, findTime)
	defer stop()
	for {
		begun, err := read(ctx, p, op, m, func(_ context.Context, sh *shell) (bool, error) {
			if err := sh.ping(); err != nil {
				return false, err
			}
			over := sh.boot != lost.boot || sh.clock > lost.latest+100
			s, _, err := ask(sh, token, 0, 0)
			if err == nil && s.State == providers.WorkNone && over {
				const why = "the connection was lost, and the host has not started the command"
				return false, &hostError{providers.Transient, why}
			}
			return s.State != providers.WorkNone, err
		})
		var he *hostError
		if begun || errors.As(err, &he) {
			return err
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return providers.Errorf(providers.Timeout, op,
				"the connection was lost during the start, and its outcome is unknown: %w", lost.error)
		}
	}
}

// ask reads the status of a command from an agent.
func ask(sh *shell, token string, offset int64, most int) (s providers.CommandStatus, why string, err error) {
	err = sh.ask(line("hf_status", token, offset, most), func(words []string) error {
		s, why, err = readStatus(sh.out, words, offset)
		return err
	})
	return s, why, err
}

// CommandStatus returns the status of a command. The two streams share one offset, in the order in
// which they were seen to grow. Each stream is exact by itself. A stream that exceeds the cap is
// truncated.
func (p *Provider) CommandStatus(
	ctx context.Context, m providers.Machine, token string, offset int64,
) (providers.CommandStatus, error) {
	op := "read the status of " + token + " on " + m.GetMachineId()
	if err := checkToken(op, token); err != nil {
		return providers.CommandStatus{}, err
	}
	if offset < 0 {
		return providers.CommandStatus{}, providers.Errorf(providers.Unsupported, op, "offset %d is negative", offset)
	}
	if err := ctx.Err(); err != nil {
		return providers.CommandStatus{}, classify(op, err, providers.Timeout)
	}
	return read(ctx, p, op, m, func(_ context.Context, sh *shell) (providers.CommandStatus, error) {
		s, why, err := ask(sh, token, offset, maxOutput)
		s.Reason = why
		return s, err
	})
}

// KillCommand ends a command and its children: TERM, then KILL after the grace time. It returns
// when they are gone. A command that has not begun never will.
func (p *Provider) KillCommand(ctx context.Context, _ providers.Op, m providers.Machine, token string) error {
	op := "kill " + token + " on " + m.GetMachineId()
	if err := checkToken(op, token); err != nil {
		return err
	}
	most := time.Duration(p.grace())*time.Second + 5*time.Second
	return p.effect(ctx, op, m, most, func(ctx context.Context, sh *shell) error {
		ctx, err := providers.Confirmed(ctx, op)
		if err != nil {
			return err
		}
		return sh.ask(line("hf_kill", token, rand.Text(), sh.until(ctx), p.grace()), only("ok"))
	})
}

// Reboot asks the host to reboot, with or without systemd, under the op's token. A new boot id
// shows that it has.
func (p *Provider) Reboot(ctx context.Context, op providers.Op, m providers.Machine) error {
	const script = "if [ -d /run/systemd/system ]; then exec systemctl reboot; fi\n" +
		"shutdown -r now 2>/dev/null || exec reboot\n"
	return p.StartCommand(ctx, op, m, op.Token(), providers.Command{Script: script, Timeout: time.Minute})
}

// readFacts parses the answer of hf_inspect.
func readFacts(r *bufio.Reader, words []string) (boot, image string, err error) {
	if len(words) != 3 || words[0] != "facts" {
		return "", "", fmt.Errorf("%w: %q", errReply, words)
	}
	n, err := number(words[2], maxText)
	if err != nil {
		return "", "", err
	}
	b, err := readBytes(r, n)
	return words[1], text.Clip(string(b), 200), err
}
