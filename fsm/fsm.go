package fsm

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm/internal/backup"
	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/runlog"
	"github.com/holdfast-metal/holdfast/fsm/internal/wire"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Result is the outcome of one command.
type Result struct {
	Index uint64        // the Raft index it was applied at
	Value proto.Message // the record it made or changed; it is shared and must not be changed
	Err   *Error        // the refusal; if set, nothing was changed, but a condition may note it
}

// FSM applies commands and returns Views. Raft's goroutine calls Apply, Observe, Snapshot and
// Restore, one at a time. The other methods are safe for concurrent use.
type FSM struct {
	mu      sync.Mutex // guards state
	state   *core.State
	view    atomic.Pointer[View]          // nil if no reader asked for the previous one
	asked   atomic.Bool                   // whether a reader asked since view was made
	changed atomic.Pointer[chan struct{}] // closed at the next change
	applied atomic.Uint64

	halted   chan struct{}
	haltErr  error         // set before halted is closed
	codec    *runlog.Codec // for Views
	own      *runlog.Codec // for Apply, which must not wait for readers
	stage    *backup.Cache
	commands *commandSet
	highest  uint32 // the highest feature level that it understands
	entries  *wire.Shape
	guarded  bool // see NewGuarded
}

// New returns an FSM with an empty state.
func New() *FSM {
	stage := &backup.Cache{}
	f := &FSM{
		state:    core.NewState(),
		halted:   make(chan struct{}),
		codec:    runlog.NewCodec(),
		own:      runlog.NewCodec(),
		stage:    stage,
		commands: newCommandSet(stage),
		highest:  core.FeatureLevel,
		entries:  wire.ShapeOf((&internalv1.Entry{}).ProtoReflect().Descriptor()),
	}
	f.changed.Store(new(make(chan struct{})))
	return f
}

// NewGuarded returns an FSM with an empty state that panics if a message was changed after it
// was stored, or by a reader. It is for tests, because it is slow.
func NewGuarded() *FSM {
	f := New()
	f.guarded = true
	f.state.Guard()
	return f
}

// Apply applies one log entry, an encoded internalv1.Entry, and returns one Result per command. If
// this build does not understand a command, the FSM halts and ignores all later entries: see
// Halted. If a command panics, Apply panics with a *PanicError.
func (f *FSM) Apply(index, term uint64, data []byte) []Result {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.haltErr != nil {
		return nil
	}
	var e internalv1.Entry
	if err := proto.Unmarshal(data, &e); err != nil {
		f.halt(stuck(index, fmt.Errorf("decode log entry %d: %w", index, err)))
		return nil
	}
	if len(e.ProtoReflect().GetUnknown()) > 0 {
		f.halt(fmt.Errorf(
			"log entry %d: unknown field in %s: this peer is too old for the cluster's commands; upgrade it",
			index, e.ProtoReflect().Descriptor().FullName()))
		return nil
	}
	// Check all commands before applying any. A peer that stopped in the middle of an entry
	// would apply its first half again after an upgrade.
	skip, known := make([]bool, len(e.GetCommands())), f.entries.Known(data)
	for i, c := range e.GetCommands() {
		if err := understood(c, f.highest, known); err != nil {
			if skip[i] = c.GetIgnorable(); !skip[i] {
				f.halt(fmt.Errorf("log entry %d: %w: this peer is too old for the cluster's commands; upgrade it",
					index, err))
				return nil
			}
		}
	}
	if !f.guarded {
		defer crash(index)
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
	// Even a skipped command moves the clock, because other peers may understand it.
	t := core.NewTx(f.state, f.own, index, c)
	if skip {
		return Result{Index: index}
	}
	value, err := f.perform(t)
	return Result{Index: index, Value: value, Err: err}
}

// Try returns the result that the last of some commands would have now after the others, or the
// first refusal. It applies them to a copy of the state, which it discards: nothing changes.
func (f *FSM) Try(all ...*internalv1.Command) (res Result) {
	f.mu.Lock()
	s := f.state.Copy()
	f.mu.Unlock()
	for i, c := range all {
		t := core.NewTx(s, f.codec, s.Meta.GetAppliedIndex()+1+uint64(i), proto.CloneOf(c))
		value, err := f.perform(t)
		if res = (Result{Index: t.Index, Value: value, Err: err}); err != nil {
			return res
		}
	}
	return res
}

// Observe records an index without a command, such as a configuration change.
func (f *FSM) Observe(index, term uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.haltErr == nil {
		f.advance(index, term)
	}
}

func (f *FSM) advance(index, term uint64) {
	f.state.Meta.AppliedIndex, f.state.Meta.AppliedTerm = index, term
	f.publish()
}

// publish makes a change visible. While there are readers it prepares a View for them, so
// that they do not wait for the next Apply, which holds the lock.
func (f *FSM) publish() {
	if was := f.view.Load(); was != nil && f.asked.Swap(false) {
		f.view.Store(f.newView(was.state))
	} else {
		f.view.Store(nil)
	}
	f.applied.Store(f.state.Meta.GetAppliedIndex())
	close(*f.changed.Swap(new(make(chan struct{}))))
}

func (f *FSM) newView(since *core.State) *View {
	return newView(f.state.Freeze(since), f.codec, f.stage)
}

// halt freezes the state. A command that was not understood must be neither skipped nor
// covered by a snapshot.
func (f *FSM) halt(err error) {
	f.haltErr = err
	close(f.halted)
}

// stuck adds the ways back to the error of an entry that this build can never apply.
func stuck(index uint64, err error) error {
	return fmt.Errorf("%w: if only this peer stops at it, move its data directory away and start it again; "+
		"if all peers do, run on one of them: holdfast operator recover --before %d", err, index)
}

// crash continues a panic of a command with the ways back. Other peers may run another build, so
// the command must not be skipped, and nothing may act on a state with half of it: the process ends
// at once.
func crash(index uint64) {
	if v := recover(); v != nil {
		panic(&PanicError{Index: index, Value: v})
	}
}

// PanicError is the value with which Apply panics at an entry with a command that panics.
type PanicError struct {
	Index uint64
	Value any
}

func (e *PanicError) Error() string {
	return stuck(e.Index, fmt.Errorf("apply log entry %d: a command panics: %v", e.Index, e.Value)).Error()
}

// Halted returns a channel that is closed when a command arrives that this build does not
// understand. The process must exit, because its state no longer changes.
func (f *FSM) Halted() <-chan struct{} { return f.halted }

// HaltError returns the reason why the FSM has halted, or nil.
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

// Changed returns a channel that is closed at the next change. Call it before View, or a
// change between the two calls is missed.
func (f *FSM) Changed() <-chan struct{} { return *f.changed.Load() }

// WaitApplied blocks until Views include index.
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

// View returns the current state, without an Apply that is in progress. Views are shared
// until the next change, so a call is cheap.
func (f *FSM) View() *View {
	// It is usually set. Reading first keeps the cache line shared between processors.
	if !f.asked.Load() {
		f.asked.Store(true)
	}
	if v := f.view.Load(); v != nil {
		return v
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	v := f.view.Load()
	if v == nil {
		v = f.newView(&core.State{})
		f.view.Store(v)
	}
	return v
}
