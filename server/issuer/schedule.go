package issuer

import (
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// schedule is the lifecycle of signing keys. Each signs for period, is published ahead of
// that, and verifies for overlap afterwards.
type schedule struct {
	period, ahead, overlap time.Duration
}

// maxKeys bounds the keys that have not retired. It is below the limit of the state.
const maxKeys = 12

// signing returns the newest key that may sign now, or nil. keys are ordered oldest first.
func signing(keys []*internalv1.SigningKey, now time.Time) *internalv1.SigningKey {
	var current *internalv1.SigningKey
	for _, k := range keys {
		if !k.GetSignsFrom().AsTime().After(now) && !retired(k, now) {
			current = k
		}
	}
	return current
}

// retired reports whether a key is no longer valid for verification.
func retired(k *internalv1.SigningKey, now time.Time) bool {
	return k.GetRetiresAt() != nil && !now.Before(k.GetRetiresAt().AsTime())
}

// plan returns the keys to keep, with their retirement set if they get a successor, and the
// time from which a new key signs, if one is needed. If changed is false, there is nothing
// to do. usable reports whether this peer can use a key; an unusable key gets a successor
// at once.
func (s schedule) plan(
	keys []*internalv1.SigningKey,
	now time.Time,
	usable func(*internalv1.SigningKey) bool,
) (keep []*internalv1.SigningKey, next *time.Time, changed bool) {
	for _, k := range keys {
		if retired(k, now) {
			changed = true
			continue
		}
		keep = append(keep, k)
	}
	if len(keep) == 0 {
		return nil, &now, true
	}
	if len(keep) >= maxKeys {
		return keep, nil, changed // the period is shorter than the lifetime of tokens: wait for keys to retire
	}
	newest := keep[len(keep)-1]
	from := newest.GetSignsFrom().AsTime().Add(s.period)
	switch {
	case !usable(newest):
		from = now
	case now.Before(from.Add(-s.ahead)):
		return keep, nil, changed
	case from.Before(now.Add(s.ahead)):
		from = now.Add(s.ahead) // rotation is late: the key is still published ahead of its use
	}
	for i, k := range keep {
		if k.GetRetiresAt() == nil {
			keep[i] = proto.CloneOf(k) // the state shares its keys
			keep[i].RetiresAt = timestamppb.New(from.Add(s.overlap))
		}
	}
	return keep, &from, true
}
