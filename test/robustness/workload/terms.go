package workload

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// SecretsKey makes a key that peers seal secrets with, and gives the arguments that they need for
// it. Without it no peer makes access tokens.
func SecretsKey(dir string) ([]string, error) {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	name := filepath.Join(dir, "secrets.key")
	if err := os.WriteFile(name, []byte("k1:"+base64.StdEncoding.EncodeToString(key)+"\n"), 0o600); err != nil {
		return nil, fmt.Errorf("make a key for secrets: %w", err)
	}
	return []string{"--secrets-key-file", name}, nil
}

// OrdinaryLeases are the terms of the product
// (docs/decisions/0012-leases-have-a-clock-of-their-own.md: a true loss is declared within TTL + 60
// s). A pool has three of the intervals that it is asked for, which are 5 to 30 s.
func OrdinaryLeases() Leases {
	return Leases{
		Machine: {TTL: 5 * time.Minute, Most: 6 * time.Minute},
		Pool:    {TTL: 15 * time.Second, Most: 150 * time.Second},
		Service: {TTL: 90 * time.Second, Most: 150 * time.Second},
	}
}

// ShortLeases are the terms of a holdfast that was built with ShortLeaseEdits: leases can be lost
// within a round, several times. Most allows for half a TTL, which a leader adds to what it
// inherits, and ten seconds for a machine that has much to do.
func ShortLeases() Leases {
	return Leases{
		Machine: {TTL: 6 * time.Second, Most: 19 * time.Second},
		Pool:    {TTL: 6 * time.Second, Most: 21 * time.Second},
		Service: {TTL: 6 * time.Second, Most: 19 * time.Second},
	}
}

// Edit is a piece of a source file and what stands in its place.
type Edit struct{ File, Before, After string }

// ShortLeaseEdits make leases short. They change numbers and no rule: the product has no switch for
// them.
func ShortLeaseEdits() []Edit {
	return []Edit{
		{"server/agents.go", "machineTTL = 5 * time.Minute", "machineTTL = 6 * time.Second"},
		{"server/machineapi/register.go", "const ttlSeconds = 300", "const ttlSeconds = 6"},
		{"server/registry.go", "const serviceTTL = 90 * time.Second", "const serviceTTL = 6 * time.Second"},
		{"server/pools.go", "poolTTL = 15 * time.Second", "poolTTL = 4 * time.Second"},
		{"executor/lease/interval.go", "poolNormal = 10 * time.Second", "poolNormal = 2 * time.Second"},
		{"executor/lease/interval.go", "poolHigh   = 5 * time.Second", "poolHigh   = 2 * time.Second"},
		{"executor/lease/interval.go", "poolQuiet  = 30 * time.Second", "poolQuiet  = 3 * time.Second"},
	}
}
