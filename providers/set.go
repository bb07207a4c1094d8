package providers

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"
)

// Factory makes a provider of one kind from its part of the configuration (JSON).
// An unknown key in it is an error.
type Factory func(name string, config json.RawMessage, log *slog.Logger) (Provider, error)

// Config is the configuration of one instance: its kind, and what the kind's factory reads.
type Config struct {
	Kind      string
	MaxActive int // runs at work on its machines at once; 0: as many as the executor takes
	Calls     int // most calls a second that looks at its machines may make; 0: DefaultCalls
	PowerOn   Stagger
	Raw       json.RawMessage
}

// Stagger is the least time between two machines of one instance that are powered on; 0: none.
type Stagger struct {
	Interval time.Duration // of all its machines
	Rack     time.Duration // of those in one rack
}

// DefaultCalls is how many calls a second the looks at the machines of one instance may make when
// its configuration does not say.
const DefaultCalls = 200

// UnmarshalJSON takes out what all kinds have and leaves the rest to the factory.
func (c *Config) UnmarshalJSON(b []byte) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(b, &fields); err != nil {
		return err
	}
	raw, ok := fields["kind"]
	if !ok {
		return errors.New(`provider has no kind: set one, e.g. "kind: fake"`)
	}
	if err := json.Unmarshal(raw, &c.Kind); err != nil || c.Kind == "" {
		return fmt.Errorf("kind of provider is %s: it is the name of a kind, e.g. fake", raw)
	}
	delete(fields, "kind")
	if raw, ok := fields["max_active"]; ok {
		if err := json.Unmarshal(raw, &c.MaxActive); err != nil || c.MaxActive < 0 {
			return fmt.Errorf("max_active of provider is %s: it is a number of runs, 0 for no limit", raw)
		}
		delete(fields, "max_active")
	}
	if raw, ok := fields["calls_per_second"]; ok {
		if err := json.Unmarshal(raw, &c.Calls); err != nil || c.Calls < 0 {
			return fmt.Errorf("calls_per_second of provider is %s: it is a number of calls, 0 for the default of %d", raw, DefaultCalls)
		}
		delete(fields, "calls_per_second")
	}
	for key, d := range map[string]*time.Duration{"power_on_interval": &c.PowerOn.Interval, "power_on_rack_interval": &c.PowerOn.Rack} {
		raw, ok := fields[key]
		if !ok {
			continue
		}
		var text string
		err := json.Unmarshal(raw, &text)
		if err == nil {
			*d, err = time.ParseDuration(text)
		}
		if err != nil || *d < 0 {
			return fmt.Errorf("%s of provider is %s: it is a time between two power-ons, e.g. 2s", key, raw)
		}
		delete(fields, key)
	}
	var err error
	c.Raw, err = json.Marshal(fields)
	return err
}

// Set is the configured provider instances, by name.
type Set struct {
	byName    map[string]Provider
	maxActive map[string]int
	calls     map[string]int
	powerOn   map[string]Stagger
	fallback  string
}

// NewSet builds every configured instance with the factory of its kind.
func NewSet(factories map[string]Factory, configs map[string]Config, log *slog.Logger) (*Set, error) {
	s := &Set{byName: make(map[string]Provider, len(configs)), maxActive: map[string]int{}, calls: map[string]int{}, powerOn: map[string]Stagger{}}
	for _, name := range slices.Sorted(maps.Keys(configs)) {
		c := configs[name]
		f, ok := factories[c.Kind]
		if !ok {
			return nil, fmt.Errorf("configure provider %q: kind %q is not one of %s", name, c.Kind,
				strings.Join(slices.Sorted(maps.Keys(factories)), ", "))
		}
		p, err := f(name, c.Raw, log.With("provider", name))
		if err != nil {
			return nil, fmt.Errorf("configure provider %q: %w", name, err)
		}
		s.byName[name], s.maxActive[name], s.calls[name] = p, c.MaxActive, c.Calls
		s.powerOn[name] = c.PowerOn
	}
	return s, nil
}

// SetOf makes a set of instances that exist already.
func SetOf(byName map[string]Provider, options ...Option) *Set {
	s := &Set{byName: maps.Clone(byName), calls: map[string]int{}, powerOn: map[string]Stagger{}}
	for _, o := range options {
		o(s)
	}
	return s
}

// Option is what else a set is made with.
type Option func(*Set)

// WithCalls sets the budget of an instance for looks, in calls a second.
func WithCalls(name string, perSecond int) Option {
	return func(s *Set) { s.calls[name] = perSecond }
}

// WithStagger sets how the machines of an instance are powered on one after the other.
func WithStagger(name string, by Stagger) Option {
	return func(s *Set) { s.powerOn[name] = by }
}

// WithFallback returns a set that takes the named instance for every machine whose own is not
// configured. It is for trying things out: real hardware must not be driven by a provider that it
// did not name.
func (s *Set) WithFallback(name string) *Set {
	return &Set{byName: s.byName, maxActive: s.maxActive, calls: s.calls, powerOn: s.powerOn, fallback: name}
}

// NameOf returns the name of a machine's provider: its field, else its label "provider", else the
// only instance there is, else "fake" (docs/operating.md).
func (s *Set) NameOf(m Machine) string {
	if n := m.GetSpec().GetProvider(); n != "" {
		return n
	}
	if n := m.GetLabels()["provider"]; n != "" {
		return n
	}
	if len(s.byName) == 1 {
		for n := range s.byName {
			return n
		}
	}
	return "fake"
}

// Of returns a machine's provider. The error names the provider and those that are configured.
func (s *Set) Of(m Machine) (Provider, error) {
	name := s.NameOf(m)
	if p, ok := s.byName[name]; ok {
		return p, nil
	}
	if p, ok := s.byName[s.fallback]; ok {
		return p, nil
	}
	names := slices.Sorted(maps.Keys(s.byName))
	return nil, Errorf(Unsupported, "pick the provider of "+m.GetMachineId(),
		"provider %q is not configured (configured: %s)", name, strings.Join(names, ", "))
}

// MaxActive returns how many runs may be at work at once on the machines of an instance; 0 when
// nothing says.
func (s *Set) MaxActive(name string) int { return s.maxActive[name] }

// PowerOn returns how the machines of an instance are powered on one after the other.
func (s *Set) PowerOn(name string) Stagger { return s.powerOn[name] }

// Calls returns how many calls a second the looks at the machines of an instance may make.
func (s *Set) Calls(name string) int {
	if n := s.calls[name]; n > 0 {
		return n
	}
	return DefaultCalls
}
