package runs

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

// consoleTail is the number of bytes of earlier output that a client receives when it attaches.
const consoleTail = 32 << 10

// termBegins is how long Attach waits for a new leader to start its tasks.
const termBegins = time.Second

// maxConsoles is the maximum number of open consoles: each is a program that talks to a BMC.
const maxConsoles = 256

// consoles are the consoles that are open on this peer, while it leads.
type consoles struct {
	mu       sync.Mutex
	terms    int // running terms: one or none
	open     map[string]*openConsole
	reserved int           // number of consoles that are open, opening or closing
	changed  chan struct{} // closed at the next change of the fields above
}

func newConsoles() *consoles {
	return &consoles{open: map[string]*openConsole{}, changed: make(chan struct{})}
}

// change calls f under the lock and signals the change.
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

// errConsoleLost returns the error of a console that is closed because the term has ended.
func errConsoleLost() error {
	return &cluster.OutcomeError{
		Outcome: cluster.NotApplied,
		Err:     fmt.Errorf("%w: this peer no longer leads, and has no open consoles", cluster.ErrNoLeader),
	}
}

// Attach connects to the console that a run keeps open. It waits until the console is
// open. Read returns its output, preceded by some earlier output, and io.EOF when the run
// has ended. Write sends input; only one client at a time may write. Close detaches the
// client, but the run keeps the console open for a while, for other clients or a return.
// Refusals are *fsm.Error. The error is a *cluster.OutcomeError if this peer does not
// lead.
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
			return nil, &fsm.Error{
				Code:    fsm.NotFound,
				Reason:  "RUN_NOT_FOUND",
				Message: fmt.Sprintf("run %q not found", run),
				Meta:    map[string]string{"run_id": run},
			}
		case !r.GetBeside():
			return nil, &fsm.Error{
				Code:   fsm.FailedPrecondition,
				Reason: "NO_CONSOLE",
				Message: fmt.Sprintf("run %s of plan %s has no console: start a run of plan/console", run,
					r.GetPlanId()),
				Meta: map[string]string{"run_id": run},
			}
		case fsm.Ended(r):
			return nil, &fsm.Error{
				Code:    fsm.FailedPrecondition,
				Reason:  fsm.ReasonRunFinished,
				Message: fmt.Sprintf("run %s has %s: %s", run, r.GetPhase(), consoleEnd(r)),
				Meta:    map[string]string{"run_id": run},
			}
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

// Leave records that a client that has closed the console will not return. The console is
// closed at once if no other client is attached. Otherwise Leave has no effect: if the
// connection of another client breaks later, that client may return.
func (e *Executor) Leave(run string) {
	if o, _, _ := e.consoles.look(run); o != nil {
		o.change(func() { o.left = o.here == 0 })
	}
}

// openConsole is an open console with its attached clients.
type openConsole struct {
	run string
	hw  io.ReadWriter

	typing sync.Mutex // serializes writes to hw

	mu       sync.Mutex
	tail     []byte // end of the output
	from     int64  // offset of the first byte of tail
	err      error  // reason of its end, if it has ended
	writer   *attached
	here     int       // number of attached clients
	left     bool      // the last client will not return
	since    time.Time // last change of here
	lastWord time.Time // last input or output
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

// show adds output of the console.
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

// end ends the console for all attached clients. A nil error means that the run has ended.
func (o *openConsole) end(err error) {
	o.change(func() {
		if o.err = err; err == nil {
			o.err = io.EOF
		}
	})
}

// attach adds a client.
func (o *openConsole) attach(ctx context.Context, write bool) (*attached, error) {
	a := &attached{o: o, ctx: ctx}
	o.mu.Lock()
	defer o.mu.Unlock()
	if write && o.writer != nil {
		return nil, &fsm.Error{
			Code:   fsm.FailedPrecondition,
			Reason: "CONSOLE_TAKEN",
			Message: fmt.Sprintf("another client has write access to the console of run %s: "+
				"attach with read_only, or wait until it leaves", o.run),
			Meta: map[string]string{"run_id": o.run},
		}
	}
	if write {
		o.writer = a
	}
	a.next = o.from
	o.here, o.left, o.since = o.here+1, false, time.Now()
	return a, nil
}

// attached is an attached client. It implements io.ReadWriteCloser.
type attached struct {
	o    *openConsole
	ctx  context.Context // of the call
	next int64           // offset of the next read
	gone bool
}

// Read blocks until there is output. A client that reads too slowly misses output older
// than consoleTail.
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

// Write sends input to the console.
func (a *attached) Write(b []byte) (int, error) {
	a.o.mu.Lock()
	mine, err := a.o.writer == a, a.o.err
	a.o.lastWord = time.Now()
	a.o.mu.Unlock()
	switch {
	case err != nil:
		return 0, err
	case !mine:
		return 0, errors.New("write to the console: it was attached read-only")
	}
	a.o.typing.Lock()
	defer a.o.typing.Unlock()
	return a.o.hw.Write(b)
}

// Close detaches the client.
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
