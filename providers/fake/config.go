package fake

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/holdfast-metal/holdfast/providers/internal/settings"
)

// Duration is a time.Duration that is written as a string in JSON, e.g. "200ms".
type Duration time.Duration

// MarshalJSON returns a string like "200ms".
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

// UnmarshalJSON parses "200ms".
func (d *Duration) UnmarshalJSON(b []byte) error {
	return (*settings.OptionalDuration)(d).UnmarshalJSON(b)
}

// Config describes a fleet: durations and faults.
type Config struct {
	Seed uint64 `json:"seed"` // of all decisions that look random

	PowerTime    Duration `json:"power_time"`    // from a power press to its effect; default 20ms
	ShutdownTime Duration `json:"shutdown_time"` // from a soft-off to power off; default power_time
	BootTime     Duration `json:"boot_time"`     // from power on to a host that answers; default 150ms
	InstallTime  Duration `json:"install_time"`  // of an install or a wipe, including the boot; default 300ms
	CommandTime  Duration `json:"command_time"`  // of a command, without its sleeps; default 30ms
	JoinTime     Duration `json:"join_time"`     // of joining a cluster; default 50ms
	ResetTime    Duration `json:"reset_time"`    // of a restart of the BMC; default 100ms

	Faults // of every machine

	// Machines has the full faults of machines that differ from the others. When it is read from
	// YAML or JSON, an entry inherits omitted keys from the faults of every machine.
	Machines map[string]Faults `json:"machines"`

	// Now returns the time for computing states; default time.Now.
	Now func() time.Time `json:"-"`
}

// ParseConfig parses and validates a fleet's configuration in YAML or JSON. The error for an
// unknown or repeated key names the key.
func ParseConfig(b []byte) (Config, error) {
	var c Config
	j, err := yaml.YAMLToJSONStrict(b)
	if err == nil {
		err = json.Unmarshal(j, &c)
	}
	if err != nil {
		return Config{}, fmt.Errorf("read fake fleet configuration: %w", err)
	}
	return c, nil
}

// UnmarshalJSON is strict. A machine inherits the faults of every machine.
func (c *Config) UnmarshalJSON(b []byte) error {
	type plain Config // without this method
	in := struct {
		*plain
		Machines map[string]json.RawMessage `json:"machines"`
	}{plain: (*plain)(c)}
	if err := settings.Read(b, &in); err != nil {
		return err
	}
	var err error
	if c.Machines, err = overlay(c.Faults, nil, in.Machines); err != nil {
		return err
	}
	return c.Validate()
}

// Validate checks a configuration that ParseConfig has not parsed. Its error names the key, the
// value and the allowed values.
func (c Config) Validate() error {
	times := []Duration{
		c.PowerTime, c.ShutdownTime, c.BootTime, c.InstallTime, c.CommandTime, c.JoinTime, c.ResetTime,
	}
	for _, d := range times {
		if d < 0 {
			return fmt.Errorf("a duration is %v: it must not be negative", time.Duration(d))
		}
	}
	return validateFaults(c.Faults, c.Machines)
}

func validateFaults(all Faults, machines map[string]Faults) error {
	if err := all.validate(); err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(machines)) {
		if err := machines[id].validate(); err != nil {
			return fmt.Errorf("machine %q: %w", id, err)
		}
	}
	return nil
}

// overlay returns old with the raw entries applied. An entry changes the machine's own faults or,
// if there are none, the faults of all. A null entry removes the machine's own faults.
func overlay(all Faults, old map[string]Faults, raw map[string]json.RawMessage) (map[string]Faults, error) {
	out := maps.Clone(old)
	for _, id := range slices.Sorted(maps.Keys(raw)) {
		if string(raw[id]) == "null" {
			delete(out, id)
			continue
		}
		f, ok := out[id]
		if !ok {
			f = all
		}
		f = f.clone()
		if err := settings.Read(raw[id], &f); err != nil {
			return nil, fmt.Errorf("machine %q: %w", id, err)
		}
		if out == nil {
			out = make(map[string]Faults)
		}
		out[id] = f
	}
	return out, nil
}

// withDefaults fills in the defaults.
func (c Config) withDefaults() Config {
	settings.Default(&c.PowerTime, 20*time.Millisecond)
	settings.Default(&c.BootTime, 150*time.Millisecond)
	settings.Default(&c.InstallTime, 300*time.Millisecond)
	settings.Default(&c.CommandTime, 30*time.Millisecond)
	settings.Default(&c.JoinTime, 50*time.Millisecond)
	settings.Default(&c.ResetTime, 100*time.Millisecond)
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}
