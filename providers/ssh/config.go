package sshexec

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/holdfast-metal/holdfast/providers/internal/settings"
)

// Duration is a time.Duration that is written as a string in JSON, e.g. "15s".
type Duration = settings.Duration

// Jump is a jump host for connections.
type Jump struct {
	Endpoint       string `json:"endpoint"`        // as Machine.spec.ssh_endpoint
	CredentialsRef string `json:"credentials_ref"` // default: that of the provider

	// HostKeys are its keys, as in authorized_keys. Default: the first key that it shows. If its
	// key changes, set it here.
	HostKeys []string `json:"host_keys"`
}

// Config is the configuration of a provider. The zero value is usable.
type Config struct {
	// CredentialsRef is the secret for machines that name none. Its password is never sent to them.
	CredentialsRef string `json:"credentials_ref"`
	Jump           []Jump `json:"jump"` // in this order
	// JumpAllow has what a machine behind jump hosts may be, besides an address that is not
	// reserved: names (also *.SUFFIX), which the last jump host resolves, addresses and networks.
	JumpAllow []string `json:"jump_allow"`

	// HostKeys is the policy for a host without a pinned key: "first-sight" (the default) pins
	// the key it shows, "pinned" refuses it.
	HostKeys string `json:"host_keys"`

	KeepAlive   Duration `json:"keepalive"`    // between two heartbeats; default 5s
	DeadAfter   Duration `json:"dead_after"`   // an unanswered heartbeat closes the connection; default 15s
	Idle        Duration `json:"idle"`         // an unused connection is closed after it; default 1m
	MaxAge      Duration `json:"max_age"`      // of a connection, because secrets change; default 15m
	CallTimeout Duration `json:"call_timeout"` // limit of one call; default 30s
	KillGrace   Duration `json:"kill_grace"`   // between TERM and KILL; whole seconds; default 5s

	StateDir string `json:"state_dir"` // on the hosts, persistent; default /var/lib/holdfast/ssh
	KeepDays int    `json:"keep_days"` // that output of ended commands is kept; default 7
	// OutputCap is the size in bytes up to which a stream is kept. The default is slightly above
	// 1 MiB, which is more than the log of a run accepts.
	OutputCap int64 `json:"output_cap"`
}

// The policies for host keys.
const (
	FirstSight = "first-sight"
	PinnedOnly = "pinned"
)

// ParseConfig parses a configuration. The error for an unknown key names the key.
func ParseConfig(raw json.RawMessage) (Config, error) {
	var c Config
	if err := settings.Read(raw, &c); err != nil {
		return Config{}, fmt.Errorf("read ssh configuration: %w", err)
	}
	return c, c.Validate()
}

// Validate returns an error that names the wrong key, its value and the allowed values.
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
	for i, allow := range c.JumpAllow {
		if _, err := parseAllow(allow); err != nil {
			return fmt.Errorf("jump_allow[%d]: %w", i, err)
		}
	}
	for i, j := range c.Jump {
		if _, err := parseEndpoint(j.Endpoint); err != nil {
			return fmt.Errorf("jump[%d]: %w", i, err)
		}
		for k, key := range j.HostKeys {
			if _, _, _, _, err := ssh.ParseAuthorizedKey([]byte(key)); err != nil {
				return fmt.Errorf(
					`jump[%d]: host_keys[%d] is not a public key: want one line such as "ssh-ed25519 AAAA…"`, i, k)
			}
		}
	}
	return nil
}

func (c Config) withDefaults() Config {
	settings.Default(&c.KeepAlive, 5*time.Second)
	settings.Default(&c.DeadAfter, 15*time.Second)
	settings.Default(&c.Idle, time.Minute)
	settings.Default(&c.MaxAge, 15*time.Minute)
	settings.Default(&c.CallTimeout, 30*time.Second)
	settings.Default(&c.KillGrace, 5*time.Second)
	c.HostKeys = cmp.Or(c.HostKeys, FirstSight)
	c.StateDir = cmp.Or(c.StateDir, "/var/lib/holdfast/ssh")
	c.KeepDays = cmp.Or(c.KeepDays, 7)
	c.OutputCap = cmp.Or(c.OutputCap, 1<<20+64<<10)
	return c
}
