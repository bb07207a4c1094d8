package executor

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Bounds of what providers learn on the way, and need not have on record at once.
const (
	noteEvery = 30 * time.Second // of one device, at most
	noteTick  = time.Second
	noteBatch = 50 // in one tick, of all devices
)

// Notes keeps what providers learn of hardware where the next leader finds it: which driver worked,
// which session is open, what a host was first known by. Only a leader can write, under its epoch.
type Notes struct {
	proposer Proposer
	state    State

	turn chan struct{} // held by who writes: what was put off must not come after a later note of the same device

	mu      sync.Mutex
	held    map[string]heldNote
	written map[string]time.Time // when a device's note was last written, for as long as that holds the next one back
}

// heldNote is one that is not on record yet.
type heldNote struct {
	epoch uint64 // whose leader has learned it: a later one knows better
	value []byte
}

// NewNotes returns the notes of a peer. Run writes those that are not urgent.
func NewNotes(p Proposer, s State) *Notes {
	return &Notes{proposer: p, state: s, turn: make(chan struct{}, 1), held: map[string]heldNote{}, written: map[string]time.Time{}}
}

// Get returns the note under a key, also one that is not on record yet; nil if there is none. It
// answers from the leader's own state, at once.
func (n *Notes) Get(key string) []byte {
	view := n.state.View()
	n.mu.Lock()
	defer n.mu.Unlock()
	if h, ok := n.held[key]; ok && h.epoch == view.Meta().GetEpoch() {
		return bytes.Clone(h.value)
	}
	return view.DeviceNote(key)
}

// Put keeps a note of at most 4 KiB; an empty one removes it. It is recorded when Put answers nil.
func (n *Notes) Put(ctx context.Context, key string, value []byte) error {
	select {
	case n.turn <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("keep a note of %s: %w", key, ctx.Err())
	}
	defer func() { <-n.turn }()
	if err := n.note(ctx, &internalv1.NoteDevice{Key: key, Value: value}); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.held, key) // it was older
	n.written[key] = time.Now()
	return nil
}

// PutSoon keeps a note that a change of leader may lose: what would be learned again. Of one device
// it is recorded once in 30 s at most, the last one of those that came meanwhile.
func (n *Notes) PutSoon(key string, value []byte) {
	epoch := n.state.View().Meta().GetEpoch()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.held[key] = heldNote{epoch, bytes.Clone(value)}
}

// PutFirst keeps a note unless another one is there: that is an *fsm.Error with ReasonDeviceNoted.
func (n *Notes) PutFirst(ctx context.Context, key string, value []byte) error {
	return n.note(ctx, &internalv1.NoteDevice{Key: key, Value: value, First: true})
}

// Run is the leader task that writes what was put off. What it has not written when the term ends
// is forgotten.
func (n *Notes) Run(ctx context.Context, _ cluster.Term) error {
	tick := time.NewTicker(noteTick)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		for _, key := range n.due() {
			if n.writeHeld(ctx, key) != nil {
				break // it is tried again with the next tick
			}
		}
	}
}

// writeHeld writes what was put off of a device, if nobody else has meanwhile.
func (n *Notes) writeHeld(ctx context.Context, key string) error {
	select {
	case n.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-n.turn }()
	n.mu.Lock()
	h, ok := n.held[key]
	_, early := n.written[key]
	n.mu.Unlock()
	if !ok || early {
		return nil
	}
	if err := n.note(ctx, &internalv1.NoteDevice{Key: key, Value: h.value}); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.written[key] = time.Now()
	if now := n.held[key]; bytes.Equal(now.value, h.value) && now.epoch == h.epoch {
		delete(n.held, key)
	}
	return nil
}

// due returns the devices whose notes may be written now, and forgets what is over.
func (n *Notes) due() []string {
	view := n.state.View()
	epoch := view.Meta().GetEpoch()
	n.mu.Lock()
	defer n.mu.Unlock()
	for key, at := range n.written {
		if time.Since(at) >= noteEvery {
			delete(n.written, key)
		}
	}
	var keys []string
	for key, h := range n.held {
		if h.epoch != epoch || bytes.Equal(h.value, view.DeviceNote(key)) {
			delete(n.held, key)
		} else if _, early := n.written[key]; !early {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys[:min(len(keys), noteBatch)]
}

func (n *Notes) note(ctx context.Context, c *internalv1.NoteDevice) error {
	cmd := &internalv1.Command{FeatureLevel: 1, Epoch: n.state.View().Meta().GetEpoch(), Op: &internalv1.Command_NoteDevice{NoteDevice: c}}
	if _, err := n.proposer.Apply(ctx, cmd); err != nil {
		return fmt.Errorf("keep a note of %s: %w", c.GetKey(), err)
	}
	return nil
}
