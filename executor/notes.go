package executor

import (
	"context"
	"fmt"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Notes keeps what providers learn of hardware where the next leader finds it: which driver worked, which session is open, what a host was
// first known by. Only a leader can write, under its epoch.
type Notes struct {
	proposer Proposer
	state    State
}

// NewNotes gives the notes of a peer.
func NewNotes(p Proposer, s State) *Notes { return &Notes{p, s} }

// Get gives the note under a key; nil when there is none. It answers from the leader's own state, at once.
func (n *Notes) Get(key string) []byte { return n.state.View().DeviceNote(key) }

// Put keeps a note of at most 4 KiB; an empty one removes it.
func (n *Notes) Put(ctx context.Context, key string, value []byte) error {
	return n.note(ctx, &internalv1.NoteDevice{Key: key, Value: value})
}

// PutFirst keeps a note unless another one is there: that is an *fsm.Error with ReasonDeviceNoted.
func (n *Notes) PutFirst(ctx context.Context, key string, value []byte) error {
	return n.note(ctx, &internalv1.NoteDevice{Key: key, Value: value, First: true})
}

func (n *Notes) note(ctx context.Context, c *internalv1.NoteDevice) error {
	cmd := &internalv1.Command{FeatureLevel: 1, Epoch: n.state.View().Meta().GetEpoch(), Op: &internalv1.Command_NoteDevice{NoteDevice: c}}
	if _, err := n.proposer.Apply(ctx, cmd); err != nil {
		return fmt.Errorf("keep a note of %s: %w", c.GetKey(), err)
	}
	return nil
}
