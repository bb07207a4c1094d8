package workload

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
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
// (docs/decisions/0012-leases-have-a-clock-of-their-own.md: a true loss is declared within 60 s
// after the end of the lease). Heartbeats may have the longest interval.
func OrdinaryLeases() Leases {
	all := Leases{}
	for holder, kind := range map[Holder]internalv1.LeaseRef_Kind{
		Machine: internalv1.LeaseRef_MACHINE, Pool: internalv1.LeaseRef_POOL, Service: internalv1.LeaseRef_SERVICE,
	} {
		l := fsm.LifetimeOf(kind)
		all[holder] = LeaseTimes{TTL: l.TTL, Max: l.Last(l.TTL, l.LowLoad) + time.Minute}
	}
	return all
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
	const table = "fsm/internal/lifetime/lifetime.go"
	return []Edit{
		{table, "machineTTL = 5 * time.Minute", "machineTTL = 6 * time.Second"},
		{table, "serviceTTL = 90 * time.Second", "serviceTTL = 6 * time.Second"},
		{table, "poolTTL    = 15 * time.Second", "poolTTL    = 4 * time.Second"},
		{table, "poolInterval    = 10 * time.Second", "poolInterval    = 2 * time.Second"},
		{table, "poolFast        = 5 * time.Second", "poolFast        = 2 * time.Second"},
		{table, "poolSlow        = 30 * time.Second", "poolSlow        = 3 * time.Second"},
	}
}
