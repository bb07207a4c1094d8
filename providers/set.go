package providers

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"
)

// Factory builds a provider of one kind from its part of the configuration (JSON). An unknown key
// in it is an error.
type Factory func(name string, config json.RawMessage, log *slog.Logger) (Provider, error)

// Config is the configuration of one instance.
type Config struct {
	Kind      string
	MaxActive int // concurrent runs on its machines; 0: no limit but the executor's
	Calls     int // calls a second for polling its machines; 0: DefaultCalls
	PowerOn   Stagger
	Raw       json.RawMessage // keys for the factory of the kind
}

// Stagger is the minimum time between the power-ons of two machines of one instance; 0: none.
type Stagger struct {
	Interval time.Duration // between any two of its machines
	Rack     time.Duration // between two machines of one rack
}

// DefaultCalls is the default limit, in calls a second, for polling the machines of one instance.
const DefaultCalls = 200

// UnmarshalJSON decodes the keys that all kinds share and leaves the rest to the factory.
func (c *Config) UnmarshalJSON(b []byte) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(b, &fields); err != nil {
		return err
	}
	// decode decodes and deletes a key. It returns an error with the wanted value if that is
	// invalid.
	decode := func(key string, into any, valid func() bool, want string) error {
		raw, ok := fields[key]
		if !ok {
			return nil
		}
		delete(fields, key)
		if err := json.Unmarshal(raw, into); err != nil || !valid() {
			return fmt.Errorf("%s of provider is %s: want %s", key, raw, want)
		}
		return nil
	}
	if _, ok := fields["kind"]; !ok {
		return errors.New(`provider has no kind: set one, e.g. "kind: fake"`)
	}
	const pause = "a time between two power-ons, e.g. 2s"
	var interval, rack string
	err := cmp.Or(
		decode("kind", &c.Kind, func() bool { return c.Kind != "" }, "the name of a kind, e.g. fake"),
		decode("max_active", &c.MaxActive, func() bool { return c.MaxActive >= 0 },
			"a number of runs, 0 for no limit"),
		decode("calls_per_second", &c.Calls, func() bool { return c.Calls >= 0 },
			fmt.Sprintf("a number of calls, 0 for the default of %d", DefaultCalls)),
		decode("power_on_interval", &interval, func() bool { return parsePause(interval, &c.PowerOn.Interval) }, pause),
		decode("power_on_rack_interval", &rack, func() bool { return parsePause(rack, &c.PowerOn.Rack) }, pause),
	)
	if err != nil {
		return err
	}
	c.Raw, err = json.Marshal(fields)
	return err
}

// parsePause parses a duration into d, and reports whether it is valid.
func parsePause(text string, d *time.Duration) bool {
	var err error
	*d, err = time.ParseDuration(text)
	return err == nil && *d >= 0
}

// Set holds the configured provider instances, by name.
type Set struct {
	byName   map[string]Provider
	configs  map[string]Config // without Raw; may lack an instance
	fallback string
}

// NewSet builds every configured instance with the factory of its kind.
func NewSet(factories map[string]Factory, configs map[string]Config, log *slog.Logger) (*Set, error) {
	s := &Set{byName: make(map[string]Provider, len(configs)), configs: make(map[string]Config, len(configs))}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(configs)) {
		c := configs[name]
		f, ok := factories[c.Kind]
		if !ok {
			errs = append(errs, fmt.Errorf("configure provider %q: kind %q is not one of %s", name, c.Kind,
				strings.Join(slices.Sorted(maps.Keys(factories)), ", ")))
			continue
		}
		p, err := f(name, c.Raw, log.With("provider", name))
		if err != nil {
			errs = append(errs, fmt.Errorf("configure provider %q: %w", name, err))
			continue
		}
		c.Raw = nil
		s.byName[name], s.configs[name] = p, c
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return s, nil
}

// SetOf returns a set of existing instances.
func SetOf(byName map[string]Provider, options ...Option) *Set {
	s := &Set{byName: maps.Clone(byName), configs: map[string]Config{}}
	for _, o := range options {
		o(s)
	}
	return s
}

// Option configures a set.
type Option func(*Set)

// WithCalls limits the calls a second for polling the machines of an instance.
func WithCalls(name string, perSecond int) Option {
	return func(s *Set) {
		c := s.configs[name]
		c.Calls = perSecond
		s.configs[name] = c
	}
}

// WithStagger sets the minimum time between power-ons of the machines of an instance.
func WithStagger(name string, by Stagger) Option {
	return func(s *Set) {
		c := s.configs[name]
		c.PowerOn = by
		s.configs[name] = c
	}
}

// WithFallback returns a set that uses the named instance for each machine whose own provider is
// not configured. It is for trials only: a provider must not drive real hardware that does not
// name it.
func (s *Set) WithFallback(name string) *Set {
	return &Set{byName: s.byName, configs: s.configs, fallback: name}
}

// NameOf returns the name of a machine's provider: the field of its spec, else its label
// "provider", else the only configured instance, else "fake" (docs/operating.md).
func (s *Set) NameOf(m Machine) string {
	only := "fake"
	if len(s.byName) == 1 {
		for name := range s.byName {
			only = name
		}
	}
	return cmp.Or(m.GetSpec().GetProvider(), m.GetLabels()["provider"], only)
}

// Of returns a machine's provider. The error names that provider and the configured ones.
func (s *Set) Of(m Machine) (Provider, error) {
	name := s.NameOf(m)
	if p, ok := s.byName[name]; ok {
		return p, nil
	}
	if p, ok := s.byName[s.fallback]; ok {
		return p, nil
	}
	return nil, Errorf(Unsupported, "pick the provider of "+m.GetMachineId(),
		"provider %q is not configured (configured: %s)", name, strings.Join(s.Names(), ", "))
}

// Has reports whether machines may name a provider. With a fallback, they may name any.
func (s *Set) Has(name string) bool {
	_, named := s.byName[name]
	_, fallback := s.byName[s.fallback]
	return named || fallback
}

// Names returns the names of the configured instances, sorted.
func (s *Set) Names() []string { return slices.Sorted(maps.Keys(s.byName)) }

// MaxActive returns the limit of concurrent runs on the machines of an instance; 0 if there is
// none.
func (s *Set) MaxActive(name string) int { return s.configs[name].MaxActive }

// PowerOn returns the minimum time between power-ons of the machines of an instance.
func (s *Set) PowerOn(name string) Stagger { return s.configs[name].PowerOn }

// Calls returns the limit, in calls a second, for polling the machines of an instance.
func (s *Set) Calls(name string) int { return cmp.Or(s.configs[name].Calls, DefaultCalls) }
