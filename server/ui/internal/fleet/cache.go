package fleet

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// countTimeout bounds the time to count all machines.
const countTimeout = 10 * time.Second

// Cache keeps counts, because their cost grows with the number of machines, and many
// users may view them. There is one per scope. It is counted again after 20 times the
// duration of the count, and at least a second.
type Cache struct {
	start time.Time
	now   func() time.Time
	one   singleflight.Group

	mu  sync.Mutex
	all map[string]*Counts
}

// mostScopes bounds the number of cached counts.
const mostScopes = 32

// NewCache returns an empty cache.
func NewCache(now func() time.Time) *Cache {
	return &Cache{start: now(), now: now, all: map[string]*Counts{}}
}

// Of returns the counts of the machines that a user may see.
func (s *Cache) Of(
	ctx context.Context,
	id *holdfastv1.Identity,
	c holdfastv1.MachineServiceClient,
) (*Counts, error) {
	key := fmt.Sprintf("%v %q", id.GetRole(), id.GetPools())
	s.mu.Lock()
	f := s.all[key]
	s.mu.Unlock()
	if f != nil && s.now().Sub(s.start)-f.at < max(time.Second, 20*f.took) {
		return f, nil
	}
	got, err, _ := s.one.Do(key, func() (any, error) {
		// Other requests wait for this count, so it must survive the cancellation of the
		// first one.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), countTimeout)
		defer cancel()
		begin := s.now()
		f, err := count(ctx, c)
		if err != nil {
			return nil, err
		}
		f.at, f.took = s.now().Sub(s.start), s.now().Sub(begin)
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.all) >= mostScopes {
			clear(s.all)
		}
		s.all[key] = f
		return f, nil
	})
	if err != nil {
		return nil, err
	}
	return got.(*Counts), nil //nolint:forcetypeassert // the function above returns *Counts
}
