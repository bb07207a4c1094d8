package executor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/fsm"
)

// consoleTail is how much of what a console has shown is shown again to who attaches, in bytes.
const consoleTail = 32 << 10

// termBegins is how long somebody who attaches waits for a new leader to begin its work.
const termBegins = time.Second

// maxConsoles is how many consoles are open at once: each is a program that speaks with a BMC.
const maxConsoles = 256

// consoles are the consoles that are open on this peer, while it leads.
type consoles struct {
	mu       sync.Mutex
	terms    int // under way: one or none
	open     map[string]*openConsole
	reserved int           // places taken: open ones, and those that are being opened or closed
	changed  chan struct{} // closed at the next change of the above
}

func newConsoles() *consoles {
	return &consoles{open: map[string]*openConsole{}, changed: make(chan struct{})}
}

// change changes something under the lock, and tells those who wait.
func (c *consoles) change(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *consoles) look(run string) (o *openConsole, leads bool, changed <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open[run], c.terms > 0, c.changed
}

// errConsoleLost is why a console ends with the term.
func errConsoleLost() error {
	return &cluster.OutcomeError{Outcome: cluster.NotApplied, Err: fmt.Errorf("%w: this peer does not lead any more, and holds no console", cluster.ErrNoLeader)}
}

// Attach connects with the console that a run keeps open, as soon as it is. Read gives what it
// shows, from a little before on, and io.EOF when the run has ended; Write types, for one at a
// time. Close leaves it: the run goes on for a while, for others and for who comes back. The
// refusals are *fsm.Error; a peer that does not lead, or not any more, answers a
// *cluster.OutcomeError.
func (e *Executor) Attach(ctx context.Context, run string, write bool) (io.ReadWriteCloser, error) {
	begins := time.NewTimer(termBegins)
	defer begins.Stop()
	late := false
	for {
		state := e.state.Changed()
		o, leads, changed := e.consoles.look(run)
		switch r, ok := e.state.View().Run(run); {
		case o != nil:
			return o.attach(ctx, write)
		case !ok:
			return nil, &fsm.Error{Code: fsm.NotFound, Reason: "RUN_NOT_FOUND", Message: fmt.Sprintf("run %q not found", run), Meta: map[string]string{"run_id": run}}
		case !r.GetBeside():
			return nil, &fsm.Error{Code: fsm.FailedPrecondition, Reason: "NO_CONSOLE", Message: fmt.Sprintf("run %s of plan %s keeps no console open: start one of plan/console", run, r.GetPlanId()), Meta: map[string]string{"run_id": run}}
		case fsm.Ended(r):
			return nil, &fsm.Error{Code: fsm.FailedPrecondition, Reason: fsm.ReasonRunFinished, Message: fmt.Sprintf("run %s has %s: %s", run, r.GetPhase(), consoleEnd(r)), Meta: map[string]string{"run_id": run}}
		case !leads && late:
			return nil, errConsoleLost()
		}
		select {
		case <-changed:
		case <-state:
		case <-begins.C:
			late = true
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Leave reports that a caller who has closed the console will not come back: a console that nobody
// else is attached to ends at once. Of others who are still attached it says nothing: one of them
// whose connection breaks later may come back.
func (e *Executor) Leave(run string) {
	if o, _, _ := e.consoles.look(run); o != nil {
		o.change(func() { o.left = o.here == 0 })
	}
}

// openConsole is one console and those who are attached to it.
type openConsole struct {
	run string
	hw  io.ReadWriter

	typing sync.Mutex // held by who writes

	mu       sync.Mutex
	tail     []byte // the end of what it has shown
	from     int64  // offset of tail's first byte
	err      error  // why it is over
	writer   *attached
	here     int       // who is attached
	left     bool      // the last one does not come back
	since    time.Time // when here has become what it is
	lastWord time.Time // when something was typed or shown
	changed  chan struct{}
}

func newOpenConsole(run string, hw io.ReadWriter) *openConsole {
	return &openConsole{run: run, hw: hw, since: time.Now(), lastWord: time.Now(), changed: make(chan struct{})}
}

func (o *openConsole) change(f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f()
	close(o.changed)
	o.changed = make(chan struct{})
}

// show takes what the console has shown.
func (o *openConsole) show(data []byte) {
	o.change(func() {
		o.lastWord = time.Now()
		o.tail = append(o.tail, data...)
		if over := len(o.tail) - consoleTail; over > 0 {
			o.tail = append(o.tail[:0], o.tail[over:]...)
			o.from += int64(over)
		}
	})
}

// end ends all that are attached. A nil error is the end of the run.
func (o *openConsole) end(err error) {
	o.change(func() {
		if o.err = err; err == nil {
			o.err = io.EOF
		}
	})
}

// attach adds somebody.
func (o *openConsole) attach(ctx context.Context, write bool) (*attached, error) {
	a := &attached{o: o, ctx: ctx}
	o.mu.Lock()
	defer o.mu.Unlock()
	if write && o.writer != nil {
		return nil, &fsm.Error{Code: fsm.FailedPrecondition, Reason: "CONSOLE_TAKEN", Message: fmt.Sprintf("somebody else types at the console of run %s: look on (read_only), or wait until he leaves", o.run),
			Meta: map[string]string{"run_id": o.run}}
	}
	if write {
		o.writer = a
	}
	a.next = o.from
	o.here, o.left, o.since = o.here+1, false, time.Now()
	return a, nil
}

// attached is one who is attached. It implements io.ReadWriteCloser.
type attached struct {
	o    *openConsole
	ctx  context.Context // of the call
	next int64           // offset that is read next
	gone bool
}

// Read waits for output. Who is too slow misses what is not kept any more.
func (a *attached) Read(b []byte) (int, error) {
	for {
		a.o.mu.Lock()
		a.next = max(a.next, a.o.from)
		n := copy(b, a.o.tail[a.next-a.o.from:])
		a.next += int64(n)
		err, changed := a.o.err, a.o.changed
		a.o.mu.Unlock()
		if n > 0 || len(b) == 0 {
			return n, nil
		}
		if err != nil {
			return 0, err
		}
		select {
		case <-changed:
		case <-a.ctx.Done():
			return 0, a.ctx.Err()
		}
	}
}

// Write types.
func (a *attached) Write(b []byte) (int, error) {
	a.o.mu.Lock()
	mine, err := a.o.writer == a, a.o.err
	a.o.lastWord = time.Now()
	a.o.mu.Unlock()
	switch {
	case err != nil:
		return 0, err
	case !mine:
		return 0, errors.New("type at the console: it was attached to look on")
	}
	a.o.typing.Lock()
	defer a.o.typing.Unlock()
	return a.o.hw.Write(b)
}

// Close leaves.
func (a *attached) Close() error {
	a.o.change(func() {
		if a.gone {
			return
		}
		a.gone = true
		a.o.here, a.o.since = a.o.here-1, time.Now()
		if a.o.writer == a {
			a.o.writer = nil
		}
	})
	return nil
}
