package series

import (
	"fmt"
	"slices"
	"time"
)

// Saved is a copy of a Store, to be encoded.
type Saved struct {
	Resolutions []Resolution
	Tracks      map[string]SavedTrack
}

// SavedTrack is one series, with a ring for each resolution.
type SavedTrack struct {
	Kind  Kind
	Rings []SavedRing
}

// SavedRing has the periods of a ring by their number modulo the length.
type SavedRing struct {
	Newest int64
	Values []float32
	Counts []uint32
}

// Save returns a copy of all series.
func (s *Store) Save() Saved {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := Saved{Resolutions: s.cfg.Resolutions, Tracks: make(map[string]SavedTrack, len(s.all))}
	for name, t := range s.all {
		c := SavedTrack{Kind: t.kind}
		for _, r := range t.rings {
			c.Rings = append(c.Rings, SavedRing{r.newest, slices.Clone(r.values), slices.Clone(r.counts)})
		}
		out.Tracks[name] = c
	}
	return out
}

// Load replaces all series by saved ones and takes ownership of them. It returns an error, and
// changes nothing, if they are of another configuration or have samples after the given time,
// behind which newer samples would be ignored.
func (s *Store) Load(from Saved, latest time.Time) error {
	if !slices.Equal(from.Resolutions, s.cfg.Resolutions) || len(from.Tracks) > s.cfg.MaxSeries {
		return fmt.Errorf("load %d series with the resolutions %v: want at most %d with %v",
			len(from.Tracks), from.Resolutions, s.cfg.MaxSeries, s.cfg.Resolutions)
	}
	all := make(map[string]*track, len(from.Tracks))
	for name, c := range from.Tracks {
		t, err := s.loaded(c, latest)
		if err != nil {
			return fmt.Errorf("load series %q: %w", name, err)
		}
		all[name] = t
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = all
	return nil
}

// loaded returns the series with the saved content.
func (s *Store) loaded(c SavedTrack, latest time.Time) (*track, error) {
	if c.Kind > Sum || len(c.Rings) != len(s.cfg.Resolutions) {
		return nil, fmt.Errorf("kind %d with %d rings is unknown", c.Kind, len(c.Rings))
	}
	t := &track{kind: c.Kind}
	for i, r := range s.cfg.Resolutions {
		from := c.Rings[i]
		if len(from.Values) != r.Keep || len(from.Counts) != r.Keep {
			return nil, fmt.Errorf("ring %d has %d values and %d counts: want %d",
				i, len(from.Values), len(from.Counts), r.Keep)
		}
		if last := periodOf(latest, r.Every); from.Newest < 0 || from.Newest > last {
			return nil, fmt.Errorf("ring %d ends at period %d: want 0 to %d", i, from.Newest, last)
		}
		t.rings = append(t.rings, ring{from.Newest, from.Values, from.Counts})
	}
	return t, nil
}
