package runs

import (
	"context"
	"fmt"
	"io"
	"runtime/debug"
	"time"

	"github.com/holdfast-metal/holdfast/executor/task"
	"github.com/holdfast-metal/holdfast/providers"

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

// consoleEnd returns the reason why the run of a console has ended.
func consoleEnd(r *holdfastv1.Run) string {
	if msg := r.GetError().GetMessage(); msg != "" {
		return msg
	}
	for _, s := range r.GetSteps() {
		return s.GetMessage()
	}
	return ""
}

// console keeps the serial console open until all clients have left, it is idle or the
// time is up. It always closes the console on the BMC; a new leader opens it again.
func (a *attempt) console(p providers.Console, s *holdfastv1.SerialConsole) action {
	idle := time.Duration(s.GetIdleSeconds()) * time.Second
	if idle == 0 {
		idle = consoleIdle
	}
	return action{do: func(ctx context.Context) error {
		if err := a.reserveConsole(); err != nil {
			return err
		}
		defer a.consoles.change(func() { a.consoles.reserved-- })
		live, stop := context.WithCancel(ctx) // the lifetime of the console
		defer stop()
		var hw io.ReadWriteCloser
		opening, stopOpening := context.WithTimeout(ctx, consoleOpens)
		// The previous user may be about to close it, so retry.
		err := a.poll(opening, "the console to open", func(opening context.Context) (bool, error) {
			// Opening uses live, not the context of the effect: the console outlives that context.
			err := a.effect(opening, "open the console", func(context.Context) error {
				var err error
				hw, err = p.OpenConsole(live, a.machine)
				return err
			})
			return err == nil, err
		})
		stopOpening()
		if err != nil {
			return err
		}
		o := newOpenConsole(a.id, hw)
		ended := make(chan error, 1)
		defer func() { // also on panic: the BMC must not keep the session
			_ = hw.Close()
			stop()
			<-ended //nolint:errcheck // whileConsole has reported it
		}()
		go func() { ended <- a.copyConsole(o, hw) }()
		a.consoles.change(func() { a.consoles.open[a.id] = o })
		end := errConsoleLost()
		defer func() {
			o.end(end)
			a.consoles.change(func() { delete(a.consoles.open, a.id) })
		}()
		err = a.whileConsole(ctx, o, idle, ended)
		if a.whole.Err() == nil {
			end = nil
		}
		return err
	}}
}

// reserveConsole reserves one of the maxConsoles slots, before the program that talks to
// the BMC is started.
func (a *attempt) reserveConsole() error {
	full := false
	a.consoles.change(func() {
		if full = a.consoles.reserved >= maxConsoles; !full {
			a.consoles.reserved++
		}
	})
	if full {
		return providers.Errorf(providers.Unsupported, "open the console",
			"%d consoles are already open: close one", maxConsoles)
	}
	return nil
}

// copyConsole copies the output of the console to the run log and to the attached
// clients, until the console ends.
func (a *attempt) copyConsole(o *openConsole, hw io.Reader) (err error) {
	defer func() { // driveSafely recovers only panics of the runner's own goroutine
		if p := recover(); p != nil {
			a.runner.log.Error("reading a console panicked", "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("read the console: a defect in Holdfast or its provider: %v", p)
		}
	}()
	buf := make([]byte, 4<<10)
	for {
		n, err := hw.Read(buf)
		if n > 0 {
			o.show(buf[:n])
			a.write(streamConsole, append([]byte(nil), buf[:n]...))
		}
		if err != nil {
			return err
		}
	}
}

// whileConsole blocks until the console is to be closed, and sets the message of the step
// to the reason.
func (a *attempt) whileConsole(ctx context.Context, o *openConsole, idle time.Duration, ended chan error) error {
	a.awaits("a client to attach to the console")
	tick := time.NewTicker(a.cfg.Linger / 10)
	defer tick.Stop()
	for {
		o.mu.Lock()
		here, left, since, quiet, changed := o.here, o.left, o.since, time.Since(o.lastWord), o.changed
		o.mu.Unlock()
		switch {
		case here == 0 && left:
			a.message = "all clients have left"
			return nil
		case here == 0 && time.Since(since) > a.cfg.Linger:
			a.message = fmt.Sprintf("no client was attached for %s", a.cfg.Linger)
			return nil
		case quiet > idle:
			a.message = fmt.Sprintf("no input or output for %s", idle)
			return nil
		}
		if here > 0 {
			a.awaits("all clients to leave the console")
		}
		if err := a.note(ctx); err != nil {
			return err
		}
		select {
		case <-changed:
			_ = task.Sleep(ctx, consoleCheck) // output signals a change, too
		case <-tick.C:
		case err := <-ended:
			ended <- err // console receives it again
			if ctx.Err() == nil {
				return providers.Errorf(providers.Transient, "keep the console open", "the BMC closed it: %w", err)
			}
		case <-ctx.Done():
		}
		if timedOut(ctx) {
			a.message = "closed at the end of its time"
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}
