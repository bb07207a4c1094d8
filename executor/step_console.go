package executor

import (
	"context"
	"fmt"
	"io"
	"runtime/debug"
	"time"

	"github.com/holdfast-metal/holdfast/providers"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// streamConsole is the stream of the run's log that has what a console has shown.
const streamConsole = "console"

// consoleIdle is how long a console stays open when nothing is typed or shown, where the step does
// not say.
const consoleIdle = 30 * time.Minute

// consoleOpens is how long it is tried to open a console.
const consoleOpens = 30 * time.Second

// consoleLook is how long a look at who is attached is the last one, at least.
const consoleLook = 100 * time.Millisecond

// consoleEnd words why the run of a console has ended.
func consoleEnd(r *holdfastv1.Run) string {
	if msg := r.GetError().GetMessage(); msg != "" {
		return msg
	}
	for _, s := range r.GetSteps() {
		return s.GetMessage()
	}
	return ""
}

// console keeps the serial console open until all have left, nothing happens any more or the time
// is over. It is closed on the BMC whatever happens; a new leader opens it anew.
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
		live, stop := context.WithCancel(ctx) // the console lives as long
		defer stop()
		var hw io.ReadWriteCloser
		opening, stopOpening := context.WithTimeout(ctx, consoleOpens)
		err := a.poll(opening, "the console to open", func(opening context.Context) (bool, error) { // who had it may be about to close it
			err := a.effect(opening, "open the console", func(context.Context) error { // it changes nothing, and outlives the time for effects
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
		defer func() { // also on panic: the BMC must not be left with it
			_ = hw.Close()
			stop()
			<-ended //nolint:errcheck // it was said where the console was waited for
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

// reserveConsole takes one of the places for consoles, before the program that speaks with the BMC
// is started.
func (a *attempt) reserveConsole() error {
	full := false
	a.consoles.change(func() {
		if full = a.consoles.reserved >= maxConsoles; !full {
			a.consoles.reserved++
		}
	})
	if full {
		return providers.Errorf(providers.Unsupported, "open the console", "%d consoles are open already: close one", maxConsoles)
	}
	return nil
}

// copyConsole takes what the console shows into the run's log, and to those who are attached, until
// it ends.
func (a *attempt) copyConsole(o *openConsole, hw io.Reader) (err error) {
	defer func() { // this goroutine is not the runner's, which recovers its own
		if p := recover(); p != nil {
			a.runner.log.Error("reading a console has panicked", "panic", p, "stack", string(debug.Stack()))
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

// whileConsole waits for the end of a console, and says why it has come.
func (a *attempt) whileConsole(ctx context.Context, o *openConsole, idle time.Duration, ended chan error) error {
	a.awaits("somebody to attach to the console")
	tick := time.NewTicker(a.cfg.Linger / 10)
	defer tick.Stop()
	for {
		o.mu.Lock()
		here, left, since, quiet, changed := o.here, o.left, o.since, time.Since(o.lastWord), o.changed
		o.mu.Unlock()
		switch {
		case here == 0 && left:
			a.message = "everybody has left"
			return nil
		case here == 0 && time.Since(since) > a.cfg.Linger:
			a.message = fmt.Sprintf("nobody was attached for %s", a.cfg.Linger)
			return nil
		case quiet > idle:
			a.message = fmt.Sprintf("nothing was typed or shown for %s", idle)
			return nil
		}
		if here > 0 {
			a.awaits("everybody to leave the console")
		}
		if err := a.note(ctx); err != nil {
			return err
		}
		select {
		case <-changed:
			_ = sleep(ctx, consoleLook) // what is shown changes it, too
		case <-tick.C:
		case err := <-ended:
			ended <- err // for who waits for it
			if ctx.Err() == nil {
				return providers.Errorf(providers.Transient, "keep the console open", "the BMC has ended it: %w", err)
			}
		case <-ctx.Done():
		}
		if timedOut(ctx) {
			a.message = "its time was over"
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}
