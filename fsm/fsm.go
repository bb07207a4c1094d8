package fsm

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Result is what became of one command.
type Result struct {
	Index uint64        // the Raft index it was applied at
	Value proto.Message // the Machine, Plan or Run it made or changed; the caller owns it
	Err   *Error        // the refusal, when nothing was changed
}

// FSM applies commands and answers with Views. Apply, Observe, Snapshot and Restore are called by
// one goroutine (Raft's); everything else by any.
type FSM struct {
	mu      sync.Mutex // guards state
	state   *state
	view    atomic.Pointer[View]          // of what is applied; nil if nobody asked for the one before it
	asked   atomic.Bool                   // somebody has, since it was made
	changed atomic.Pointer[chan struct{}] // closed at the next change
	applied atomic.Uint64

	halted  chan struct{}
	haltErr error     // set before halted is closed
	codec   *logCodec // of Views
	own     *logCodec // of Apply, which must not wait for readers
	decoded *planCache
}

// New returns an FSM with an empty state.
func New() *FSM {
	f := &FSM{
		state:   newState(),
		halted:  make(chan struct{}),
		codec:   newLogCodec(),
		own:     newLogCodec(),
		decoded: newPlanCache(),
	}
	f.changed.Store(new(make(chan struct{})))
	return f
}

// Apply applies one log entry, an encoded internalv1.Entry, and gives one Result per command. After
// a command that this build does not understand it does nothing any more: see Halted.
func (f *FSM) Apply(index, term uint64, data []byte) []Result {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.haltErr != nil {
		return nil
	}
	var e internalv1.Entry
	if err := proto.Unmarshal(data, &e); err != nil {
		f.halt(fmt.Errorf("decode log entry %d: %w", index, err))
		return nil
	}
	if len(e.ProtoReflect().GetUnknown()) > 0 {
		f.halt(fmt.Errorf("log entry %d: unknown field in %s: this peer is too old for the cluster's commands; upgrade it", index, e.ProtoReflect().Descriptor().FullName()))
		return nil
	}
	// Nothing of an entry is applied unless all of it is understood: a peer that stops in the
	// middle of one would apply its first half again after an upgrade.
	skip := make([]bool, len(e.GetCommands()))
	for i, c := range e.GetCommands() {
		if err := understood(c); err != nil {
			if skip[i] = c.GetIgnorable(); !skip[i] {
				f.halt(fmt.Errorf("log entry %d: %w: this peer is too old for the cluster's commands; upgrade it", index, err))
				return nil
			}
		}
	}
	results := make([]Result, 0, len(e.GetCommands()))
	for i, c := range e.GetCommands() {
		// failpoint: command-to-apply
		results = append(results, f.apply(index, c, skip[i]))
	}
	// failpoint: commands-applied
	f.advance(index, term)
	return results
}

func (f *FSM) apply(index uint64, c *internalv1.Command, skip bool) Result {
	t := newTx(f, index, c) // moves the clock, also for a command that is skipped: other peers may understand it
	if skip {
		return Result{Index: index}
	}
	value, err := t.perform()
	return Result{Index: index, Value: value, Err: err}
}

// Observe records an index that carried no command, such as a configuration change.
func (f *FSM) Observe(index, term uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.haltErr == nil {
		f.advance(index, term)
	}
}

func (f *FSM) advance(index, term uint64) {
	f.state.meta.AppliedIndex, f.state.meta.AppliedTerm = index, term
	f.publish()
}

// publish shows a change. As long as there are readers, each finds a View: they do not wait for the
// next Apply, which has the lock.
func (f *FSM) publish() {
	if was := f.view.Load(); was != nil && f.asked.Swap(false) {
		f.view.Store(f.newView(was.state))
	} else {
		f.view.Store(nil)
	}
	f.applied.Store(f.state.meta.GetAppliedIndex())
	close(*f.changed.Swap(new(make(chan struct{}))))
}

func (f *FSM) newView(since *state) *View {
	return &View{state: f.state.freeze(since), codec: f.codec, decoded: f.decoded}
}

// halt freezes the state: what was not understood must not be skipped, nor passed over by a
// snapshot.
func (f *FSM) halt(err error) {
	f.haltErr = err
	close(f.halted)
}

// Halted is closed when a command came that this build does not understand. The process must
// exit: its state will not move again.
func (f *FSM) Halted() <-chan struct{} { return f.halted }

// HaltError reports why the FSM has halted; nil while it has not.
func (f *FSM) HaltError() error {
	select {
	case <-f.halted:
		return f.haltErr
	default:
		return nil
	}
}

// Applied returns the index of the last entry that Views include.
func (f *FSM) Applied() uint64 { return f.applied.Load() }

// Changed returns a channel that is closed at the next change. Get it before the View that is
// to be compared with the change.
func (f *FSM) Changed() <-chan struct{} { return *f.changed.Load() }

// WaitApplied waits until Views include an index.
func (f *FSM) WaitApplied(ctx context.Context, index uint64) error {
	for f.Applied() < index {
		changed := f.Changed()
		if f.Applied() >= index {
			return nil
		}
		select {
		case <-changed:
		case <-f.halted:
			return f.haltErr
		case <-ctx.Done():
			return fmt.Errorf("wait for index %d, at %d: %w", index, f.Applied(), ctx.Err())
		}
	}
	return nil
}

// View returns the state as it is now: an Apply that is under way is not in it. Views are shared
// until the next change, so asking is cheap.
func (f *FSM) View() *View {
	if !f.asked.Load() { // most often it is set, and processors share what is only read
		f.asked.Store(true)
	}
	if v := f.view.Load(); v != nil {
		return v
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	v := f.view.Load()
	if v == nil {
		v = f.newView(&state{})
		f.view.Store(v)
	}
	return v
}
