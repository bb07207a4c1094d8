package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/holdfast-metal/holdfast/fsm"
)

// Console is an open console with its attached clients.
type Console struct {
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

func newConsole(run string, hw io.ReadWriter) *Console {
	return &Console{run: run, hw: hw, since: time.Now(), lastWord: time.Now(), changed: make(chan struct{})}
}

func (o *Console) change(f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f()
	close(o.changed)
	o.changed = make(chan struct{})
}

// Show adds output of the console.
func (o *Console) Show(data []byte) {
	o.change(func() {
		o.lastWord = time.Now()
		o.tail = append(o.tail, data...)
		if over := len(o.tail) - tailBytes; over > 0 {
			o.tail = append(o.tail[:0], o.tail[over:]...)
			o.from += int64(over)
		}
	})
}

// end ends the console for all attached clients. A nil error means that the run has ended.
func (o *Console) end(err error) {
	o.change(func() {
		if o.err = err; err == nil {
			o.err = io.EOF
		}
	})
}

// Use is how a console is used at one time.
type Use struct {
	Clients int           // attached
	Left    bool          // the last client will not return
	Since   time.Time     // last change of Clients
	Quiet   time.Duration // time since the last input or output
	Changed <-chan struct{}
}

// Use returns the present use. Changed is closed at its next change, which may be output.
func (o *Console) Use() Use {
	o.mu.Lock()
	defer o.mu.Unlock()
	return Use{Clients: o.here, Left: o.left, Since: o.since, Quiet: time.Since(o.lastWord), Changed: o.changed}
}

// Typist returns the principal of the client that may type, or "".
func (o *Console) Typist() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.writer == nil {
		return ""
	}
	return o.writer.principal
}

// attach adds a client.
func (o *Console) attach(ctx context.Context, principal string, write bool) (*attached, error) {
	a := &attached{o: o, ctx: ctx, principal: principal}
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
	o         *Console
	ctx       context.Context // of the call
	principal string          // its caller
	next      int64           // offset of the next read
	gone      bool
}

// Read blocks until there is output. A client that reads too slowly misses output older
// than tailBytes.
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
	if mine {
		a.o.lastWord = time.Now() // a refused input does not keep the console open
	}
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
