package step

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/executor/fence"
	"github.com/holdfast-metal/holdfast/executor/task"
	"github.com/holdfast-metal/holdfast/proto/holdfast/stepkind"
	"github.com/holdfast-metal/holdfast/providers"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// ssh runs a command durably: it is started once under the attempt's token, and each
// leader reads its output from the end of the recorded log.
func (a *Attempt) ssh(exec providers.RemoteExecutor, s *holdfastv1.SshCommand) Action {
	return Action{Do: func(ctx context.Context) error {
		cmd := providers.Command{
			Path:   s.GetCommand(),
			Args:   s.GetArgs(),
			Script: s.GetScript(),
			Env:    a.environment(s.GetEnv()),
			User:   s.GetUser(),
		}
		if d, ok := ctx.Deadline(); ok {
			cmd.Timeout = time.Until(d)
		}
		err := a.command(ctx, exec, "run "+commandName(cmd), func(ctx context.Context) error {
			return exec.StartCommand(ctx, a.Op, a.Machine, a.Op.Token(), cmd)
		})
		if ctx.Err() != nil {
			a.kill(exec) //nolint:contextcheck // the attempt's context has ended, the term's has not
		}
		return err
	}}
}

// environment returns the environment of a command: the run's parameters and the step's
// own variables, which take precedence. The parameter "version" becomes
// HOLDFAST_PARAM_VERSION. Parameters are never inserted into the text of a script.
// Parameters with names that are not valid in variables are left out.
func (a *Attempt) environment(own map[string]string) map[string]string {
	env := map[string]string{}
	for name, value := range a.Run.GetParams() {
		if paramOK(name) && !strings.ContainsRune(value, 0) {
			env["HOLDFAST_PARAM_"+strings.ToUpper(name)] = value
		}
	}
	maps.Copy(env, own)
	return env
}

func paramOK(name string) bool {
	return name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == ""
}

// command calls start unless the attempt's command was already started, and follows its
// output until it exits.
func (a *Attempt) command(
	ctx context.Context, exec providers.RemoteExecutor, what string, start func(context.Context) error,
) error {
	token, offset := a.Op.Token(), a.logged()
	var st providers.CommandStatus
	readStatus := func(ctx context.Context) (err error) {
		st, err = exec.CommandStatus(ctx, a.Machine, token, offset)
		return err
	}
	if err := a.Poll(ctx, answer(host, ""), func(ctx context.Context) (bool, error) {
		err := readStatus(ctx)
		return err == nil, err
	}); err != nil {
		return err
	}
	if st.State == providers.WorkNone {
		offset = 0
		if err := a.Effect(ctx, what, start); err != nil {
			if err := a.unstarted(ctx, err, readStatus, &st); err != nil {
				return err
			}
		}
	}
	return a.Poll(ctx, waitOf(holdfastv1.Wait_COMMAND, ""), func(ctx context.Context) (bool, error) {
		if err := readStatus(ctx); err != nil {
			return false, err
		}
		for _, o := range st.Output {
			a.Log.Write(o.Stream, o.Data)
		}
		if a.erases && st.State == providers.WorkRunning {
			a.noteDoubt()
		}
		offset = st.Next
		if len(st.Output) > 0 {
			return false, nil // there may be more output, even if the command has exited
		}
		switch st.State {
		case providers.WorkRunning:
			return false, nil
		case providers.WorkDone:
			a.AddEvidence(map[string]string{"exit_code": strconv.Itoa(st.ExitCode)})
			if st.ExitCode != 0 {
				return false, &Failure{fmt.Errorf("command exited with %d", st.ExitCode)}
			}
			a.Message = "exited with 0"
			return true, nil
		case providers.WorkFailed:
			if st.Reason != "" {
				return false, &Failure{fmt.Errorf("command did not end by itself: %s", task.Clean(st.Reason))}
			}
			return false, &Failure{fmt.Errorf("command was killed on the host")}
		}
		return false, &Failure{fmt.Errorf("the host no longer knows command %s", token)}
	})
}

// unstarted asks the host whether a start that returned an error has happened all the
// same: the answer may have been lost, and the next attempt would start the command a
// second time, under another token. It returns the error if the command was not started,
// and cannot be any more.
func (a *Attempt) unstarted(
	ctx context.Context, failed error, readStatus func(context.Context) error, st *providers.CommandStatus,
) error {
	if c := providers.ClassOf(failed); c != providers.Timeout && c != providers.Transient {
		return failed
	}
	since := time.Now()
	err := a.Poll(ctx, answer(host, "start of the command"), func(ctx context.Context) (bool, error) {
		err := readStatus(ctx)
		return err == nil && (st.State != providers.WorkNone || time.Since(since) > fence.Age), err
	})
	if err != nil || st.State == providers.WorkNone {
		return failed
	}
	a.Say("%v; but the host reports that it was started", failed)
	return nil
}

// logged returns the number of bytes of this attempt's output that are already in the run log.
func (a *Attempt) logged() int64 {
	if !a.Adopted {
		return 0
	}
	var n int64
	for c := range a.State.View().RunLog(a.Op.RunID, 0) {
		output := c.GetStream() == "stdout" || c.GetStream() == "stderr"
		if c.GetStep() == a.Step.GetName() && c.GetAttempt() == a.Op.Attempt && output && !c.GetTruncated() {
			n += int64(len(c.GetData()))
		}
	}
	return n
}

// killTime bounds the time to kill a command.
const killTime = 10 * time.Second

// kill ends the command of an attempt that was canceled or is out of time. If only the
// term has ended it does nothing: the next leader continues with the command.
func (a *Attempt) kill(exec providers.RemoteExecutor) {
	ctx, stop := context.WithTimeout(a.Term, a.toEnd(killTime))
	defer stop()
	// failpoint: cancel-seen
	err := a.Effect(ctx, "kill the command", func(ctx context.Context) error {
		return exec.KillCommand(ctx, a.Op, a.Machine, a.Op.Token())
	})
	if err != nil {
		a.Say("cannot kill the command: %v", err)
	}
}

// cleanupCommand ends the command, join or install of an attempt that an earlier leader
// left open, if the run was canceled meanwhile. To kill is an effect like any other, so
// its intent is recorded first.
func (a *Attempt) cleanupCommand(ctx context.Context) error {
	if joiner, ok := a.Provider.(providers.ClusterJoiner); ok && a.Step.GetJoin() != nil {
		if err := a.Adopt(ctx, endJoinTime); err != nil {
			return err
		}
		joinStep{a}.endJoin(joiner, joinStep{a}.joinSpec(a.Step.GetJoin())) //nolint:contextcheck // the run's context has ended, the term's has not
		return nil
	}
	if ender, ok := a.Provider.(providers.InstallEnder); ok && stepkind.Of(a.Step).GetInstalls() {
		if err := a.Adopt(ctx, endInstallTime); err != nil {
			return err
		}
		installStep{a}.endInstall(ender) //nolint:contextcheck // the run's context has ended, the term's has not
		return nil
	}
	exec, ok := a.Provider.(providers.RemoteExecutor)
	if !ok || a.Step.GetSsh() == nil && a.Step.GetRma() == nil {
		return nil
	}
	if err := a.Adopt(ctx, killTime); err != nil {
		return err
	}
	a.kill(exec) //nolint:contextcheck // the run's context has ended, the term's has not
	return nil
}

func commandName(c providers.Command) string {
	if c.Script != "" {
		return fmt.Sprintf("a script of %d bytes", len(c.Script))
	}
	return c.Path
}
