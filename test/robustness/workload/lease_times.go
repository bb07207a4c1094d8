package workload

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// SecretsKey creates the key with which peers encrypt secrets, and returns the arguments
// for it. Without it no peer issues access tokens.
func SecretsKey(dir string) ([]string, error) {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	name := filepath.Join(dir, "secrets.key")
	if err := os.WriteFile(name, []byte("k1:"+base64.StdEncoding.EncodeToString(key)+"\n"), 0o600); err != nil {
		return nil, fmt.Errorf("create a key for secrets: %w", err)
	}
	return []string{"--secrets-key-file", name}, nil
}

// OrdinaryLeases returns the terms of the product
// (docs/decisions/0012-leases-have-a-clock-of-their-own.md: a true loss is declared within
// TTL + 60 s). A pool has three of its heartbeat intervals, which are 5 to 30 s.
func OrdinaryLeases() Leases {
	return Leases{
		Machine: {TTL: 5 * time.Minute, Max: 6 * time.Minute},
		Pool:    {TTL: 15 * time.Second, Max: 150 * time.Second},
		Service: {TTL: 90 * time.Second, Max: 150 * time.Second},
	}
}

// ShortLeases returns the terms of a holdfast built with ShortLeaseEdits: leases can be
// lost several times within a round. Max allows for half a TTL, which a leader adds to
// inherited leases, and ten seconds for a busy machine.
func ShortLeases() Leases {
	return Leases{
		Machine: {TTL: 6 * time.Second, Max: 19 * time.Second},
		Pool:    {TTL: 6 * time.Second, Max: 21 * time.Second},
		Service: {TTL: 6 * time.Second, Max: 19 * time.Second},
	}
}

// Edit is a piece of a source file and its replacement.
type Edit struct{ File, Before, After string }

// ShortLeaseEdits returns edits that make leases short. They change numbers and no rule:
// the product has no switch for them.
func ShortLeaseEdits() []Edit {
	return []Edit{
		{"server/internal/registry/agents.go", "machineTTL = 5 * time.Minute", "machineTTL = 6 * time.Second"},
		{"server/machineapi/register.go", "const ttlSeconds = 300", "const ttlSeconds = 6"},
		{"server/internal/registry/services.go", "const serviceTTL = 90 * time.Second", "const serviceTTL = 6 * time.Second"},
		{"server/internal/registry/pools.go", "poolTTL = 15 * time.Second", "poolTTL = 4 * time.Second"},
		{"executor/lease/interval.go", "poolNormal = 10 * time.Second", "poolNormal = 2 * time.Second"},
		{"executor/lease/interval.go", "poolHigh   = 5 * time.Second", "poolHigh   = 2 * time.Second"},
		{"executor/lease/interval.go", "poolQuiet  = 30 * time.Second", "poolQuiet  = 3 * time.Second"},
	}
}
