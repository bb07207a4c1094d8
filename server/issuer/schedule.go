package issuer

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// schedule is the life of signing keys: each signs for period, is published ahead of that, and
// verifies for overlap after it.
type schedule struct {
	period, ahead, overlap time.Duration
}

// maxKeys bounds the keys that have not retired, below what the state takes.
const maxKeys = 12

// signing returns the key that signs at a time: the last one whose time has come, or nil. Keys are
// newest last.
func signing(keys []*internalv1.SigningKey, now time.Time) *internalv1.SigningKey {
	var current *internalv1.SigningKey
	for _, k := range keys {
		if !k.GetSignsFrom().AsTime().After(now) && !retired(k, now) {
			current = k
		}
	}
	return current
}

// retired reports whether a key verifies nothing any more.
func retired(k *internalv1.SigningKey, now time.Time) bool {
	return k.GetRetiresAt() != nil && !now.Before(k.GetRetiresAt().AsTime())
}

// plan reports what to do at a time: which keys to keep, changed where they get a successor, and
// from when the new one is to sign, if there has to be one. Nothing is to be done when changed is
// false. Usable says whether a key can be used by this peer: one that cannot gets a successor at
// once.
func (s schedule) plan(keys []*internalv1.SigningKey, now time.Time, usable func(*internalv1.SigningKey) bool) (keep []*internalv1.SigningKey, next *time.Time, changed bool) {
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
		return keep, nil, changed // the period is shorter than tokens live: wait until some have retired
	}
	newest := keep[len(keep)-1]
	from := newest.GetSignsFrom().AsTime().Add(s.period)
	switch {
	case !usable(newest):
		from = now
	case now.Before(from.Add(-s.ahead)):
		return keep, nil, changed
	case from.Before(now.Add(s.ahead)):
		from = now.Add(s.ahead) // nobody was there in time: it is published ahead all the same
	}
	for _, k := range keep {
		if k.GetRetiresAt() == nil {
			k.RetiresAt = timestamppb.New(from.Add(s.overlap))
		}
	}
	return keep, &from, true
}
