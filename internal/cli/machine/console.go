package machine

import (
	"context"
	"errors"
	"io"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/kinds"
	"github.com/holdfast-metal/holdfast/internal/cli/render"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func machineConsole(a *app.App) *cobra.Command {
	var readOnly, raw bool
	cmd := &cobra.Command{
		Use: "console MACHINE", Args: app.Exactly("MACHINE"), ValidArgsFunction: a.Complete(kinds.Machine().Names),
		Short: "Attach to a machine's serial console",
		Long: `Attach to a machine's serial console (serial over LAN) through its BMC. Type ~. at the beginning of a line to leave, ~~ for a tilde.

The console is a run beside the active one, so you can watch a repave. The run's log contains the output of the console, but not
your input, unless the machine echoes it. Only one session can type; --read-only also attaches to a console in use. If the leader
fails, a note is printed and the next leader opens the console again. A session ends after 30 minutes without output and after 8 hours.

Your session is in the audit trail and in holdfast console list; with record_consoles its output is recorded. On a terminal the
machine can move the cursor, erase and color, but not change titles or the clipboard, or make the terminal answer; in a pipe its
output is text. --raw prints all bytes.`,
		Example: `  holdfast machine console m-123
  holdfast machine console m-123 --read-only`,
		RunE: a.Online(func(ctx context.Context, c *client.Client, args []string) error {
			return attachConsole(ctx, a, c, args[0], readOnly, raw)
		}),
	}
	cmd.Flags().BoolVar(&readOnly, "read-only", false, "read the console without typing")
	cmd.Flags().BoolVar(&raw, "raw", false, "print the bytes of the machine, with all of its control sequences")
	return cmd
}

func attachConsole(ctx context.Context, a *app.App, c *client.Client, machine string, readOnly, raw bool) error {
	id := ""
	run, err := c.Runs().StartRun(ctx, &holdfastv1.StartRunRequest{MachineId: machine, PlanId: "plan/console",
		RequestId: uuid.NewString()})
	switch {
	case err == nil:
		id = run.GetRunId()
	case client.Reason(err) == "CONSOLE_OPEN":
		id = client.Detail(err, "run_id")
		a.Note("the console of %s is open already: joining run %s", machine, id)
	}
	if id == "" {
		return app.Failed(err, "open the console of machine %s", machine)
	}
	a.Note("run: %s", id)
	out := a.Foreign(raw)
	if !raw && app.TerminalFile(a.In) != nil && a.Terminal(a.Out) {
		out = render.NewScreen(a.Foreign(true)) // the machine may draw a menu
	}
	typed := make(chan []byte)
	if readOnly {
		a.Note("read only: Ctrl-C leaves")
	} else {
		restore := rawTerminal(a)
		defer restore()
		go typeTo(ctx, a.In, typed) // it ends with the process, or when what is typed does
	}
	err = c.AttachConsole(ctx, client.Console{
		RunID: id, ReadOnly: readOnly, In: typed,
		Out:      func(data []byte) error { _, err := out.Write(data); return err },
		Attached: func(peer string) { a.Note("[console of %s through %s: ~. leaves]\r", machine, peer) },
		Lost:     func(err error) { a.Note("\r\n[lost: %s: attaching again]\r", app.Reason(err)) },
	})
	if errors.Is(err, context.Canceled) || client.Reason(err) == "RUN_FINISHED" {
		err = nil
	}
	a.Note("\r\n[console of %s is left]\r", machine)
	return app.Failed(err, "attach to the console of machine %s", machine)
}

// rawTerminal sets the terminal of standard input to raw mode, so that all keys are sent, also
// Ctrl-C.
func rawTerminal(a *app.App) (restore func()) {
	f := app.TerminalFile(a.In)
	if f == nil {
		return func() {}
	}
	old, err := term.MakeRaw(int(f.Fd()))
	if err != nil {
		return func() {}
	}
	return func() { _ = term.Restore(int(f.Fd()), old) }
}

// typeTo sends the typed input, and closes the channel at the escape sequence or the end.
func typeTo(ctx context.Context, in io.Reader, out chan<- []byte) {
	defer close(out)
	esc := escape{start: true}
	buf := make([]byte, 1024)
	for {
		n, err := in.Read(buf)
		data, leave := esc.filter(buf[:n])
		if len(data) > 0 {
			select {
			case out <- data:
			case <-ctx.Done():
				return
			}
		}
		if leave || err != nil {
			return
		}
	}
}

// escape detects ~. at the beginning of a line, like ssh.
type escape struct {
	start bool // of a line
	tilde bool // one was typed there, and is held back
}

// filter returns the bytes to send, and reports whether to leave.
func (e *escape) filter(in []byte) (out []byte, leave bool) {
	for _, b := range in {
		if e.tilde {
			e.tilde = false
			switch b {
			case '.':
				return out, true
			case '~': // one of them
			default:
				out = append(out, '~')
			}
		} else if e.start && b == '~' {
			e.tilde = true
			continue
		}
		out = append(out, b)
		e.start = b == '\r' || b == '\n'
	}
	return out, false
}
