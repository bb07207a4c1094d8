package step

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"runtime/debug"
	"time"

	"github.com/holdfast-metal/holdfast/executor/console"
	"github.com/holdfast-metal/holdfast/providers"

	"github.com/holdfast-metal/holdfast/internal/wait"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// streamConsole is the stream of the run log with the output of a console.
const streamConsole = "console"

// consoleIdle is how long a console stays open without input or output, if the step does
// not set it.
const consoleIdle = 30 * time.Minute

// consoleOpens bounds the time to open a console, with retries.
const consoleOpens = 30 * time.Second

// consoleCheck is the minimum interval between two checks of the attached clients.
const consoleCheck = 100 * time.Millisecond

// consoleStep keeps a serial console open.
type consoleStep struct{ *Attempt }

// console keeps the serial console open until all clients have left, it is idle or the
// time is up. It always closes the console on the BMC; a new leader opens it again.
func (a consoleStep) console(p providers.Console, s *holdfastv1.SerialConsole) Action {
	idle := time.Duration(s.GetIdleSeconds()) * time.Second
	if idle == 0 {
		idle = consoleIdle
	}
	return Action{Do: func(ctx context.Context) error {
		release, ok := a.Consoles.Reserve() // before the program that talks to the BMC is started
		if !ok {
			return providers.Errorf(providers.Unsupported, "open the console",
				"%d consoles are already open: close one", console.Max)
		}
		defer release()
		live, stop := context.WithCancel(ctx) // the lifetime of the console
		defer stop()
		var hw io.ReadWriteCloser
		opening, stopOpening := context.WithTimeout(ctx, consoleOpens)
		// The previous user may be about to close it, so retry.
		err := a.Poll(opening, effect("console", "open"), func(opening context.Context) (bool, error) {
			// Opening uses live, not the context of the effect: the console outlives that context.
			err := a.Effect(opening, "open the console", func(context.Context) error {
				var err error
				hw, err = p.OpenConsole(live, a.Machine)
				return err
			})
			return err == nil, err
		})
		stopOpening()
		if err != nil {
			return err
		}
		ended := make(chan error, 1)
		defer func() { // also on panic: the BMC must not keep the session
			_ = hw.Close()
			stop()
			<-ended //nolint:errcheck // whileConsole has reported it
		}()
		o, closeIt := a.Consoles.Open(a.Op.RunID, hw)
		end := console.ErrLost()
		defer func() { closeIt(end) }()
		go func() { ended <- a.copyConsole(o, hw) }()
		err = a.whileConsole(ctx, o, idle, ended)
		if a.Term.Err() == nil {
			end = nil
		}
		return err
	}}
}

// client returns a wait for an action of the clients of the console.
func client(action string) *holdfastv1.Wait {
	return &holdfastv1.Wait{Kind: holdfastv1.Wait_PERSON, Subject: "client", Value: action}
}

// copyConsole copies the output of the console to the run log and to the attached
// clients, until the console ends.
func (a consoleStep) copyConsole(o *console.Console, hw io.Reader) (err error) {
	defer func() { // the recover of a runner handles only panics of the runner's own goroutine
		if p := recover(); p != nil {
			a.Logger.Error("reading a console panicked", "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("read the console: a defect in Holdfast or its provider: %v", p)
		}
	}()
	buf := make([]byte, 4<<10)
	for {
		n, err := hw.Read(buf)
		if n > 0 {
			o.Show(buf[:n])
			a.Log.WriteBy(o.Typist(), streamConsole, bytes.Clone(buf[:n]))
		}
		if err != nil {
			return err
		}
	}
}

// whileConsole blocks until the console is to be closed, and sets the message of the step
// to the reason.
func (a consoleStep) whileConsole(ctx context.Context, o *console.Console, idle time.Duration, ended chan error) error {
	a.awaits(client("attach"))
	tick := time.NewTicker(a.Config.Linger / 10)
	defer tick.Stop()
	for {
		use := o.Use()
		switch {
		case use.Clients == 0 && use.Left:
			a.Message = "all clients have left"
			return nil
		case use.Clients == 0 && time.Since(use.Since) > a.Config.Linger:
			a.Message = fmt.Sprintf("no client was attached for %s", a.Config.Linger)
			return nil
		case use.Quiet > idle:
			a.Message = fmt.Sprintf("no input or output for %s", idle)
			return nil
		}
		if use.Clients > 0 {
			a.awaits(client("leave"))
		}
		if err := a.Note(ctx); err != nil {
			return err
		}
		select {
		case <-use.Changed:
			_ = wait.Sleep(ctx, consoleCheck) // output signals a change, too
		case <-tick.C:
		case err := <-ended:
			ended <- err // console receives it again
			if ctx.Err() == nil {
				return providers.Errorf(providers.Transient, "keep the console open", "the BMC closed it: %w", err)
			}
		case <-ctx.Done():
		}
		if timedOut(ctx) {
			a.Message = "closed at the end of its time"
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}
