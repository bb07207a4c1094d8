package replay

import (
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// The limits of the memory. Peers repeat a call within seconds, so time alone would do. Number and
// size bound it if many calls come at once. They are constants because every peer must remember the
// same outcomes.
const (
	MaxAge   = 5 * time.Minute // by the record's clock
	MaxCount = 1 << 15
	MaxBytes = 16 << 20

	maxID = 256 // bytes of an id
	// maxForget bounds the outcomes that one command forgets. It exceeds the one that it adds, so
	// the memory shrinks until it is within the limits.
	maxForget = 16
)

// ReasonForgotten is the reason for refusing a second delivery whose first one may have been
// applied so long ago that its outcome is forgotten. The outcome of the call is unknown.
const ReasonForgotten = "OUTCOME_FORGOTTEN"

// Of returns the remembered outcome of the command's first delivery. done is false if the command
// must be applied.
func Of(t *core.Tx) (value proto.Message, done bool, err *refusal.Error) {
	d := t.Command.GetDelivery()
	if d == nil {
		return nil, false, nil
	}
	if id := d.GetId(); id == "" || len(id) > maxID {
		return nil, true, refusal.InvalidField("delivery.id", "has %d bytes, not 1 to %d", len(id), maxID)
	}
	o, ok := t.Outcomes.Get(d.GetId())
	switch {
	case ok && o.GetValue() == nil:
		return nil, true, nil
	case ok:
		m, err := o.GetValue().UnmarshalNew()
		if err != nil {
			return nil, true, refusal.New(refusal.Aborted, ReasonForgotten, "read the outcome of delivery %q: %v",
				d.GetId(), err)
		}
		return m, true, nil
	case d.GetAgain() && t.Meta.GetForgottenOutcome() > d.GetSince():
		return nil, true, refusal.New(refusal.Aborted, ReasonForgotten,
			"the call was delivered before, and its outcome is no longer known: read what it was to change")
	}
	return nil, false, nil
}

// Remember stores the outcome of a command that was not refused, and forgets old ones.
func Remember(t *core.Tx, value proto.Message) {
	d := t.Command.GetDelivery()
	if d == nil {
		return
	}
	t.Meta.LastOutcome++
	o := &internalv1.StoredOutcome{Id: d.GetId(), Number: t.Meta.GetLastOutcome(), Index: t.Index, At: t.Now}
	if value != nil {
		o.Value = &anypb.Any{}
		if err := anypb.MarshalFrom(o.Value, value, proto.MarshalOptions{Deterministic: true}); err != nil {
			panic(err) // the messages of the state are valid
		}
	}
	t.Meta.OutcomeBytes += size(o)
	t.Outcomes.Put(o)
	forget(t)
}

// forget removes the oldest outcomes that exceed the limits, but not the newest.
func forget(t *core.Tx) {
	for range maxForget {
		var oldest *internalv1.StoredOutcome
		for _, o := range t.Outcomes.Scan(schema.OutcomesByNumber, "", "") {
			oldest = o
			break
		}
		if oldest.GetNumber() == t.Meta.GetLastOutcome() || t.Outcomes.Len() <= MaxCount &&
			t.Meta.GetOutcomeBytes() <= MaxBytes && t.Now.AsTime().Sub(oldest.GetAt().AsTime()) <= MaxAge {
			return
		}
		t.Outcomes.Delete(oldest.GetId())
		t.Meta.OutcomeBytes -= size(oldest)
		t.Meta.ForgottenOutcome = max(t.Meta.GetForgottenOutcome(), oldest.GetIndex())
	}
}

func size(o *internalv1.StoredOutcome) uint64 { return uint64(proto.Size(o)) }
