package access

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// PoolName returns the text for a pool in a refusal.
func PoolName(p string) string {
	if p == "" {
		return "no pool"
	}
	return fmt.Sprintf("pool %q", p)
}

// SecretWithin reports whether a secret is limited to some of these pools.
func SecretWithin(s *holdfastv1.Secret, pools []string) bool {
	others := func(p string) bool { return !slices.Contains(pools, p) }
	return len(s.GetPools()) > 0 && !slices.ContainsFunc(s.GetPools(), others)
}

// CheckSecretPools refuses a machine that refers to a secret of other pools. It may refer to
// a secret that does not exist, because inventory is often loaded first.
func CheckSecretPools(t *core.Tx, m *holdfastv1.Machine) *refusal.Error {
	for _, name := range schema.Credentials(m) {
		s, _ := t.Secrets.Get(name)
		pools := s.GetSecret().GetPools()
		if len(pools) > 0 && !slices.Contains(pools, m.GetSpec().GetPool()) {
			return refusal.New(refusal.FailedPrecondition, refusal.ReasonSecretPools,
				"secret %q is for pool %s, and machine %q is in %s: "+
					"let it refer to another one, or allow its pool in the secret",
				name, strings.Join(pools, ", "), m.GetMachineId(), PoolName(m.GetSpec().GetPool())).With("secret", name)
		}
	}
	return nil
}

// checkNarrowed refuses to limit a secret to some pools while machines of others refer to it.
func checkNarrowed(t *core.Tx, s *holdfastv1.Secret, was []string, exists bool) *refusal.Error {
	if len(s.GetPools()) == 0 || exists && len(was) > 0 && SecretWithin(&holdfastv1.Secret{Pools: was}, s.GetPools()) {
		return nil // no machine is excluded, so skip the scan of many machines
	}
	for _, m := range t.Machines.Scan(schema.MachinesBySecret, schema.SecretKey(s.GetName()), "") {
		if p := m.GetSpec().GetPool(); !slices.Contains(s.GetPools(), p) {
			return refusal.New(refusal.FailedPrecondition, refusal.ReasonSecretInUse,
				"machine %q in %s refers to secret %q, which would be for pool %s only: "+
					"let it refer to another one first",
				m.GetMachineId(), PoolName(p), s.GetName(), strings.Join(s.GetPools(), ", ")).
				With("secret", s.GetName()).With("machine_id", m.GetMachineId())
		}
	}
	return nil
}
