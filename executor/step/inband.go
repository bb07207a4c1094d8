package step

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/holdfast-metal/holdfast/executor/task"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers"
)

// rebooter is implemented by providers that reboot a host with any init system. Reboot
// runs a durable command under the op's token.
type rebooter interface {
	Reboot(ctx context.Context, op providers.Op, m providers.Machine) error
}

// inbandStep asks a host to reboot.
type inbandStep struct{ *Attempt }

// rebootInband asks the host to reboot. The boot id is the only possible evidence.
func (a inbandStep) rebootInband(exec providers.RemoteExecutor, inspector providers.Inspector) Action {
	return Action{
		Reads: "boot id", From: "host",
		Before: func(ctx context.Context) (map[string]string, error) {
			f, err := inspector.Inspect(ctx, a.Machine)
			if err != nil {
				return nil, err
			}
			if f.BootID == "" {
				return nil, fmt.Errorf("read the boot id of %s: the host does not answer (%s)",
					a.Machine.GetMachineId(), f.ReachableReason)
			}
			return map[string]string{evidenceBootID: cmp.Or(a.askedFrom(), f.BootID)}, nil
		},
		Do: func(ctx context.Context) error {
			asked, done, err := a.askedToReboot(ctx, exec, inspector)
			if err != nil || done {
				return err
			}
			if a.askedFrom() != "" && !asked {
				if done, err := a.booted(ctx, inspector); done || err != nil {
					return err
				}
				a.Say("the host was asked to reboot, and has not: it is asked again")
			}
			a.AddEvidence(map[string]string{evidenceAsked: stamp(time.Now())}) // before: its answer may be lost
			if !asked {
				ask := func(ctx context.Context) error { return a.askReboot(ctx, exec) }
				if err := a.Effect(ctx, "reboot from within", ask); err != nil {
					return err
				}
			}
			return a.Poll(ctx, waitOf(holdfastv1.Wait_BOOT, host), func(ctx context.Context) (bool, error) {
				done, err := a.booted(ctx, inspector)
				if done || err != nil {
					return done, err
				}
				return false, a.refusal(ctx, exec)
			})
		},
	}
}

// evidenceAsked is the evidence that an attempt may have asked the host to reboot.
const evidenceAsked = "reboot_asked_at"

// askedFrom returns the boot id from before the first attempt that may have asked the host to
// reboot, or "". A host that has another one now was rebooted, and must not be rebooted again only
// because that attempt did not see it come back.
func (a inbandStep) askedFrom() string {
	for _, earlier := range a.Status.GetAttempts() {
		if earlier.GetNumber() < a.Op.Attempt && earlier.GetEvidenceAfter()[evidenceAsked] != "" {
			return earlier.GetEvidenceBefore()[evidenceBootID]
		}
	}
	return ""
}

// askedToReboot reports whether an earlier leader has asked the host to reboot, and
// whether the reboot is done. The host knows the attempt's command by its token. It may
// be booting, so it is polled until it answers.
func (a inbandStep) askedToReboot(
	ctx context.Context, exec providers.RemoteExecutor, inspector providers.Inspector,
) (asked, done bool, err error) {
	if !a.Adopted {
		return false, false, nil
	}
	err = a.Poll(ctx, answer(host, "request to reboot"), func(ctx context.Context) (bool, error) {
		var err error
		if done, err = a.booted(ctx, inspector); done || err != nil {
			return done, err
		}
		st, err := exec.CommandStatus(ctx, a.Machine, a.Op.Token(), 0)
		asked = st.State != providers.WorkNone
		return err == nil, err
	})
	return asked, done, err
}

func (a inbandStep) askReboot(ctx context.Context, exec providers.RemoteExecutor) error {
	if r, ok := exec.(rebooter); ok {
		return r.Reboot(ctx, a.Op, a.Machine)
	}
	cmd := providers.Command{Path: "systemctl", Args: []string{"reboot"}, Timeout: time.Minute}
	return exec.StartCommand(ctx, a.Op, a.Machine, a.Op.Token(), cmd)
}

// refusal returns an error if the reboot command has failed on the host. A host that
// shuts down ends the command too, and soon does not answer: that is not a refusal.
func (a inbandStep) refusal(ctx context.Context, exec providers.RemoteExecutor) error {
	st, err := exec.CommandStatus(ctx, a.Machine, a.Op.Token(), 0)
	if err != nil || st.State != providers.WorkDone || st.ExitCode == 0 {
		return nil //nolint:nilerr // no answer is not a refusal
	}
	said := ""
	for _, o := range st.Output {
		said += string(o.Data)
	}
	return &Failure{fmt.Errorf(
		"the host did not reboot: the command exited with %d: %.300s", st.ExitCode, task.Clean(said))}
}
