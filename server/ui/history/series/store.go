package series

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Resolution is a ring of Keep periods.
type Resolution struct {
	Every time.Duration
	Keep  int
}

// Config configures a Store.
type Config struct {
	Resolutions []Resolution // the one that reaches back furthest is the last
	MaxSeries   int
}

// Store has some series by name. Its methods are safe for concurrent use.
type Store struct {
	cfg Config

	mu  sync.Mutex
	all map[string]*track
}

// track is one series: a ring for each resolution.
type track struct {
	kind  Kind
	rings []ring
}

// New returns an empty Store.
func New(cfg Config) *Store { return &Store{cfg: cfg, all: map[string]*track{}} }

// Add adds a sample to a series at all resolutions. The first sample of a series decides its
// kind. Add reports whether there was room: a new series beyond the maximum replaces one that
// has no sample left, or is ignored.
func (s *Store) Add(name string, kind Kind, at time.Time, v float64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.track(name, kind, at)
	if t == nil {
		return false
	}
	for i, r := range s.cfg.Resolutions {
		t.rings[i].add(t.kind, periodOf(at, r.Every), float32(v))
	}
	return true
}

// Cover marks a Sum as known from one time to another: periods without samples are 0.
func (s *Store) Cover(name string, from, to time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.track(name, Sum, to)
	if t == nil {
		return
	}
	for i, r := range s.cfg.Resolutions {
		last := periodOf(to, r.Every)
		for p := max(periodOf(from, r.Every), last-int64(r.Keep)+1); p <= last; p++ {
			t.rings[i].add(Sum, p, 0)
		}
	}
}

// track returns a series, which it creates if there is room, or nil.
func (s *Store) track(name string, kind Kind, at time.Time) *track {
	if t := s.all[name]; t != nil {
		return t
	}
	if len(s.all) >= s.cfg.MaxSeries {
		s.dropOld(at)
	}
	if len(s.all) >= s.cfg.MaxSeries {
		return nil
	}
	t := &track{kind: kind}
	for _, r := range s.cfg.Resolutions {
		t.rings = append(t.rings, newRing(r.Keep))
	}
	name = strings.Clone(name) // it may be a part of a large message
	s.all[name] = t
	return t
}

// dropOld deletes the series without a sample in the time that the Store reaches back.
func (s *Store) dropOld(now time.Time) {
	longest := len(s.cfg.Resolutions) - 1
	r := s.cfg.Resolutions[longest]
	maps.DeleteFunc(s.all, func(_ string, t *track) bool {
		return t.rings[longest].newest <= periodOf(now, r.Every)-int64(r.Keep)
	})
}

// Names returns the names of all series, in order.
func (s *Store) Names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.all))
}

// Query selects a part of a series: N points that end at a time, each of Group periods of a
// resolution. Points begin at multiples of their length, so that they do not change while time
// passes.
type Query struct {
	Resolution int // index of Config.Resolutions
	Group, N   int
	To         time.Time
}

// Step returns the length of a point.
func (s *Store) Step(q Query) time.Duration {
	return time.Duration(q.Group) * s.cfg.Resolutions[q.Resolution].Every
}

// From returns the begin of the first point.
func (s *Store) From(q Query) time.Time {
	step := s.Step(q)
	return time.Unix(0, (periodOf(q.To, step)-int64(q.N)+1)*int64(step))
}

// Read returns the points of a series, oldest first. All points of an unknown series are
// unknown.
func (s *Store) Read(name string, q Query) []Point {
	points := make([]Point, q.N)
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.all[name]
	if t == nil {
		return points
	}
	first := (periodOf(q.To, s.Step(q)) - int64(q.N) + 1) * int64(q.Group)
	for i := range points {
		points[i] = t.rings[q.Resolution].read(t.kind, first, first+int64(q.Group)-1)
		first += int64(q.Group)
	}
	return points
}
