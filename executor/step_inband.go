package executor

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
)

// rebooter is a host that knows how it is rebooted, whatever its init. It does that as a durable
// command under the op's token.
type rebooter interface {
	Reboot(ctx context.Context, op providers.Op, m providers.Machine) error
}

// rebootInband asks the host to reboot. The boot id is the only evidence there can be.
func (a *attempt) rebootInband(exec providers.RemoteExecutor, inspector providers.Inspector) action {
	return action{
		before: func(ctx context.Context) (map[string]string, error) {
			f, err := inspector.Inspect(ctx, a.machine)
			if err != nil {
				return nil, err
			}
			if f.BootID == "" {
				return nil, fmt.Errorf("read the boot id of %s: the host does not answer (%s)", a.machine.GetMachineId(), f.ReachableReason)
			}
			return map[string]string{proofBootID: f.BootID}, nil
		},
		do: func(ctx context.Context) error {
			asked, done, err := a.askedToReboot(ctx, exec, inspector)
			if err != nil || done {
				return err
			}
			if !asked {
				if err := a.effect(ctx, "reboot from within", func(ctx context.Context) error { return a.askReboot(ctx, exec) }); err != nil {
					return err
				}
			}
			return a.poll(ctx, "the host to boot", func(ctx context.Context) (bool, error) {
				done, err := a.booted(ctx, inspector)
				if done || err != nil {
					return done, err
				}
				return false, a.refusal(ctx, exec)
			})
		},
	}
}

// askedToReboot finds out what an earlier leader has done. The host knows the attempt's command by
// its token, once it answers: it may be booting.
func (a *attempt) askedToReboot(ctx context.Context, exec providers.RemoteExecutor, inspector providers.Inspector) (asked, done bool, err error) {
	if a.adopted == nil {
		return false, false, nil
	}
	err = a.poll(ctx, "the host to tell whether it was asked to reboot", func(ctx context.Context) (bool, error) {
		var err error
		if done, err = a.booted(ctx, inspector); done || err != nil {
			return done, err
		}
		st, err := exec.CommandStatus(ctx, a.machine, a.op.Token(), 0)
		asked = st.State != providers.WorkNone
		return err == nil, err
	})
	return asked, done, err
}

func (a *attempt) askReboot(ctx context.Context, exec providers.RemoteExecutor) error {
	if r, ok := exec.(rebooter); ok {
		return r.Reboot(ctx, a.op, a.machine)
	}
	return exec.StartCommand(ctx, a.op, a.machine, a.op.Token(), providers.Command{Path: "systemctl", Args: []string{"reboot"}, Timeout: time.Minute})
}

// refusal reports that the command that was to reboot the host has failed. A host that goes down
// ends it, too, and does not answer soon: that is none.
func (a *attempt) refusal(ctx context.Context, exec providers.RemoteExecutor) error {
	st, err := exec.CommandStatus(ctx, a.machine, a.op.Token(), 0)
	if err != nil || st.State != providers.WorkDone || st.ExitCode == 0 {
		return nil //nolint:nilerr // what the host does not tell is no refusal
	}
	said := ""
	for _, o := range st.Output {
		said += string(o.Data)
	}
	return &failure{fmt.Errorf("the host did not reboot: the command exited with %d: %.300s", st.ExitCode, clean(said))}
}
