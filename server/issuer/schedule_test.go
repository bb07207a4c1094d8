package issuer

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// At any time, some key signs that was published ahead of time. Its signatures can be verified
// until they expire.
func TestScheduleNeverLeavesAGap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := schedule{period: time.Duration(rapid.IntRange(4, 100).Draw(t, "period")) * time.Hour}
		s.ahead, s.overlap = s.period/4, s.period/4
		now := time.Unix(1_700_000_000, 0)
		var keys []*internalv1.SigningKey
		published := map[string]time.Time{}
		lastSigned := map[string]time.Time{}
		made := 0
		for range rapid.IntRange(1, 200).Draw(t, "looks") {
			keep, from, changed := s.plan(keys, now, func(*internalv1.SigningKey) bool { return true })
			if from != nil {
				made++
				id := fmt.Sprint("k", made)
				keep = append(keep, &internalv1.SigningKey{KeyId: id, CreatedAt: timestamppb.New(now),
					SignsFrom: timestamppb.New(*from)})
				published[id] = now
				if made > 1 && from.Before(now.Add(s.ahead)) {
					t.Fatalf("key %s: got signatures from %s on, published only %s before", id, from, from.Sub(now))
				}
			}
			if changed {
				keys = keep
			}
			if _, _, more := s.plan(keys, now, func(*internalv1.SigningKey) bool { return true }); more {
				t.Fatalf("second plan at %s: got further changes", now)
			}
			k := signing(keys, now)
			if k == nil {
				t.Fatalf("at %s: got no signing key of %d", now, len(keys))
			}
			lastSigned[k.GetKeyId()] = now
			for id, at := range lastSigned {
				if now.Sub(at) < s.overlap/2 && !published[id].IsZero() {
					found := false
					for _, k := range keys {
						found = found || k.GetKeyId() == id && !retired(k, now)
					}
					if !found {
						t.Fatalf("key %s: signed at %s, but got it removed at %s", id, at, now)
					}
				}
			}
			if len(keys) > 4 {
				t.Fatalf("got %d accumulated keys", len(keys))
			}
			// Often a minute or an hour; sometimes there is no leader for long.
			now = now.Add(time.Duration(rapid.SampledFrom([]int{1, 7, 30, 60, 120, 600}).Draw(t, "minutes")) * time.Minute)
		}
	})
}

func TestScheduleReplacesLostKey(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	s := schedule{period: 30 * 24 * time.Hour, ahead: 24 * time.Hour, overlap: time.Hour}
	keys := []*internalv1.SigningKey{{KeyId: "a", CreatedAt: timestamppb.New(now), SignsFrom: timestamppb.New(now)}}
	keep, from, changed := s.plan(keys, now.Add(time.Hour), func(*internalv1.SigningKey) bool { return false })
	if !changed || from == nil || !from.Equal(now.Add(time.Hour)) || len(keep) != 1 ||
		keep[0].GetRetiresAt().AsTime().Before(now.Add(2*time.Hour)) {
		t.Errorf("got plan %v, %v, %v", keep, from, changed)
	}
}

// A period shorter than the lifetime of tokens does not accumulate keys without bound.
func TestScheduleIsBounded(t *testing.T) {
	s := schedule{period: time.Second, ahead: time.Second / 4, overlap: time.Hour}
	now := time.Unix(1_700_000_000, 0)
	var keys []*internalv1.SigningKey
	for range 100 {
		keep, from, changed := s.plan(keys, now, func(*internalv1.SigningKey) bool { return true })
		if from != nil {
			keep = append(keep, &internalv1.SigningKey{KeyId: now.String(), CreatedAt: timestamppb.New(now),
				SignsFrom: timestamppb.New(*from)})
		}
		if changed {
			keys = keep
		}
		if len(keys) > maxKeys || signing(keys, now) == nil {
			t.Fatalf("got %d keys, signing %v", len(keys), signing(keys, now))
		}
		now = now.Add(time.Second)
	}
}
