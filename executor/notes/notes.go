// Package notes stores facts that providers need after a change of the leader in the replicated
// state: facts about devices, and the install sessions of machines. Only the leader writes, under
// its epoch. It must not interpret the notes.
package notes

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-metal/holdfast/cluster/leader"
	"github.com/holdfast-metal/holdfast/executor/task"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Limits of notes that are not urgent.
const (
	noteEvery = 30 * time.Second // minimum interval per device
	noteTick  = time.Second
	noteBatch = 50 // notes per tick, of all devices
)

// Devices stores facts about devices that providers learn, for the next leader: the driver
// that worked, the open session, the first host key of a host. Only the leader can write,
// under its epoch.
type Devices struct {
	proposer task.Proposer
	state    task.State

	writing chan struct{} // mutex of writers: a delayed note must not overwrite a later one of the same device

	mu      sync.Mutex
	held    map[string]heldNote
	written map[string]time.Time // last write of each device, for noteEvery
}

// heldNote is a note that is not committed yet.
type heldNote struct {
	epoch uint64 // of the leader that learned it; it is dropped under a later one
	value []byte
}

// NewDevices returns the notes of a peer. Run writes those that are not urgent.
func NewDevices(p task.Proposer, s task.State) *Devices {
	return &Devices{
		proposer: p,
		state:    s,
		writing:  make(chan struct{}, 1),
		held:     map[string]heldNote{},
		written:  map[string]time.Time{},
	}
}

// Get returns the note under a key, even if it is not committed yet, or nil if there is
// none. It reads the leader's own state and does not block.
func (n *Devices) Get(key string) []byte {
	view := n.state.View()
	n.mu.Lock()
	defer n.mu.Unlock()
	if h, ok := n.held[key]; ok && h.epoch == view.Meta().GetEpoch() {
		return bytes.Clone(h.value)
	}
	return view.DeviceNote(key)
}

// Put stores a note of at most 4 KiB; an empty one removes it. The note is committed if
// Put returns nil.
func (n *Devices) Put(ctx context.Context, key string, value []byte) error {
	select {
	case n.writing <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("store the note of %s: %w", key, ctx.Err())
	}
	defer func() { <-n.writing }()
	if err := n.note(ctx, &internalv1.NoteDevice{Key: key, Value: value}); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.held, key) // it is older
	n.written[key] = time.Now()
	return nil
}

// PutSoon stores a note that may be lost at a change of leader, because it can be learned
// again. The newest note of each device is committed at most once every 30 s.
func (n *Devices) PutSoon(key string, value []byte) {
	epoch := n.state.View().Meta().GetEpoch()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.held[key] = heldNote{epoch, bytes.Clone(value)}
}

// PutFirst stores a note if there is none under the key. If there is one, the error is an
// *fsm.Error with ReasonDeviceNoted.
func (n *Devices) PutFirst(ctx context.Context, key string, value []byte) error {
	return n.note(ctx, &internalv1.NoteDevice{Key: key, Value: value, First: true})
}

// Run is the leader task that writes the notes of PutSoon. Notes that are not written
// when the term ends are lost.
func (n *Devices) Run(ctx context.Context, _ leader.Term) error {
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
				break // retried at the next tick
			}
		}
	}
}

// writeHeld writes the held note of a device, unless another note was written meanwhile.
func (n *Devices) writeHeld(ctx context.Context, key string) error {
	select {
	case n.writing <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-n.writing }()
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

// due returns the devices whose notes may be written now, and deletes outdated entries.
func (n *Devices) due() []string {
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

func (n *Devices) note(ctx context.Context, c *internalv1.NoteDevice) error {
	cmd := &internalv1.Command{
		Epoch: n.state.View().Meta().GetEpoch(),
		Op:    &internalv1.Command_NoteDevice{NoteDevice: c},
	}
	if _, err := n.proposer.Apply(ctx, cmd); err != nil {
		return fmt.Errorf("store the note of %s: %w", c.GetKey(), err)
	}
	return nil
}
