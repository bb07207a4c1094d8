package sshexec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/crypto/ssh"
)

// Duration is a time.Duration that is written as text, e.g. "15s".
type Duration time.Duration

// UnmarshalJSON reads "15s", and refuses what is not above zero.
func (d *Duration) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf(`read duration %s: write it as text with a unit, e.g. "15s"`, b)
	}
	v, err := time.ParseDuration(s)
	if err != nil || v <= 0 {
		return fmt.Errorf(`read duration %q: write a number above zero and a unit, e.g. "15s"`, s)
	}
	*d = Duration(v)
	return nil
}

// Jump is a host that connections go through.
type Jump struct {
	Endpoint       string `json:"endpoint"`        // as Machine.spec.ssh_endpoint
	CredentialsRef string `json:"credentials_ref"` // default: those of the provider

	// HostKeys are what it is known by, as in authorized_keys. Default: the first one that is seen.
	// A key that changes is put here.
	HostKeys []string `json:"host_keys"`
}

// Config of a provider. The zero value is good.
type Config struct {
	CredentialsRef string `json:"credentials_ref"` // for machines that name no secret of their own; its password is sent to none of them
	Jump           []Jump `json:"jump"`            // in this order

	// HostKeys says what is done about a host without a pinned key: "first-sight" (the default)
	// pins the one that is seen, "pinned" refuses.
	HostKeys string `json:"host_keys"`

	KeepAlive   Duration `json:"keepalive"`    // between two heartbeats that are asked for; default 5s
	DeadAfter   Duration `json:"dead_after"`   // a host that does not answer one for so long has its connection closed; default 15s
	Idle        Duration `json:"idle"`         // a connection nobody uses is closed after that; default 1m
	MaxAge      Duration `json:"max_age"`      // no connection is given out that is older: secrets change; default 15m
	CallTimeout Duration `json:"call_timeout"` // of any one call, when its context has more time; default 30s
	KillGrace   Duration `json:"kill_grace"`   // between TERM and KILL; whole seconds; default 5s

	StateDir  string `json:"state_dir"`  // on the hosts; it has to survive a reboot; default /var/lib/holdfast/ssh
	KeepDays  int    `json:"keep_days"`  // output of commands that are over is kept so long; default 7
	OutputCap int64  `json:"output_cap"` // bytes of each stream that are kept; default 1 MiB and a little, more than a run's log takes
}

// The policies for host keys.
const (
	FirstSight = "first-sight"
	PinnedOnly = "pinned"
)

// ParseConfig reads a configuration strictly: an unknown key is an error that names it.
func ParseConfig(raw json.RawMessage) (Config, error) {
	var c Config
	if len(raw) > 0 {
		d := json.NewDecoder(bytes.NewReader(raw))
		d.DisallowUnknownFields()
		if err := d.Decode(&c); err != nil {
			return Config{}, fmt.Errorf("read ssh configuration: %w", err)
		}
		if _, err := d.Token(); !errors.Is(err, io.EOF) {
			return Config{}, errors.New("read ssh configuration: there is more than one value")
		}
	}
	return c, c.Validate()
}

// Validate reports what is wrong with a configuration, with the key, the value and what is allowed.
func (c Config) Validate() error {
	switch c.HostKeys {
	case "", FirstSight, PinnedOnly:
	default:
		return fmt.Errorf("host_keys is %q: want %s or %s", c.HostKeys, FirstSight, PinnedOnly)
	}
	if c.StateDir != "" && !pathOK.MatchString(c.StateDir) {
		return fmt.Errorf("state_dir is %q: want an absolute path of letters, digits, dots and dashes", c.StateDir)
	}
	if c.KeepDays < 0 || c.OutputCap < 0 {
		return errors.New("keep_days and output_cap must not be negative")
	}
	for i, j := range c.Jump {
		if _, err := parseEndpoint(j.Endpoint); err != nil {
			return fmt.Errorf("jump[%d]: %w", i, err)
		}
		for k, key := range j.HostKeys {
			if _, _, _, _, err := ssh.ParseAuthorizedKey([]byte(key)); err != nil {
				return fmt.Errorf(`jump[%d]: host_keys[%d] is no public key: want one line such as "ssh-ed25519 AAAA…"`, i, k)
			}
		}
	}
	return nil
}

func (c Config) withDefaults() Config {
	set := func(d *Duration, def time.Duration) {
		if *d == 0 {
			*d = Duration(def)
		}
	}
	set(&c.KeepAlive, 5*time.Second)
	set(&c.DeadAfter, 15*time.Second)
	set(&c.Idle, time.Minute)
	set(&c.MaxAge, 15*time.Minute)
	set(&c.CallTimeout, 30*time.Second)
	set(&c.KillGrace, 5*time.Second)
	if c.HostKeys == "" {
		c.HostKeys = FirstSight
	}
	if c.StateDir == "" {
		c.StateDir = "/var/lib/holdfast/ssh"
	}
	if c.KeepDays == 0 {
		c.KeepDays = 7
	}
	if c.OutputCap == 0 {
		c.OutputCap = 1<<20 + 64<<10
	}
	return c
}
