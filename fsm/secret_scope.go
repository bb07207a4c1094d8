package fsm

import (
	"slices"
	"strings"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Whose secrets are whose. A secret that is limited to pools opens machines of these pools alone,
// whoever asks. And a caller who is limited to pools owns the secrets whose pools are all theirs,
// and no others: a secret for all pools, or one that does not exist yet, is not theirs. Where a
// machine's provider and endpoints are, there its secrets are sent; so callers must own those that
// they send somewhere.

// clusterSecret begins the names of the secrets that hold the credentials of registered clusters:
// cluster/REF.
const clusterSecret = "cluster/"

// secretWithin reports whether a secret is limited to some of these pools.
func secretWithin(s *holdfastv1.Secret, pools []string) bool {
	if len(s.GetPools()) == 0 {
		return false
	}
	for _, p := range s.GetPools() {
		if !slices.Contains(pools, p) {
			return false
		}
	}
	return true
}

// sent lists the secrets that a change of a machine would send somewhere else than before: those
// that it newly refers to, and all of them when its provider or an endpoint is another one. old is
// nil for a machine that is new.
func sent(old, m *holdfastv1.Machine) []string {
	if old == nil || movesHardware(old, m) {
		return credentials(m)
	}
	var names []string
	for _, ref := range [][2]string{
		{old.GetSpec().GetBmcCredentialsRef(), m.GetSpec().GetBmcCredentialsRef()},
		{old.GetSpec().GetSshCredentialsRef(), m.GetSpec().GetSshCredentialsRef()},
	} {
		if was, is := ref[0], ref[1]; is != "" && is != was && !slices.Contains(names, is) {
			names = append(names, is)
		}
	}
	return names
}

// movesHardware reports whether a change makes a machine another piece of hardware.
func movesHardware(old, m *holdfastv1.Machine) bool {
	return ProviderOf(old) != ProviderOf(m) || old.GetSpec().GetBmcEndpoint() != m.GetSpec().GetBmcEndpoint() ||
		old.GetSpec().GetSshEndpoint() != m.GetSpec().GetSshEndpoint()
}

// ownSecrets refuses to send a secret somewhere for a caller who does not own it. It tells nobody
// whether there is such a secret.
func (t *tx) ownSecrets(about concern, pools []string, scope string) *Error {
	for _, name := range about.secrets {
		s, _ := t.secrets.get(name)
		if secretWithin(s.GetSecret(), pools) {
			continue
		}
		if ref, ok := strings.CutPrefix(name, clusterSecret); ok {
			return outOfScope("cluster %q is not limited to your pools, and %s: register it with holdfast cluster-ref add %s --pool POOL",
				ident(ref), scope, ident(ref)).with("secret", ident(name))
		}
		return outOfScope("secret %q is not limited to your pools, and %s: neither let a machine refer to it, nor change its address while it does", name, scope).
			with("secret", name)
	}
	return nil
}

// checkSecretPools refuses a machine that refers to a secret of pools that it is not in. One that
// is not there may be referred to: inventory is often loaded before secrets.
func (t *tx) checkSecretPools(m *holdfastv1.Machine) *Error {
	for _, name := range credentials(m) {
		s, _ := t.secrets.get(name)
		pools := s.GetSecret().GetPools()
		if len(pools) > 0 && !slices.Contains(pools, m.GetSpec().GetPool()) {
			return refuse(FailedPrecondition, ReasonSecretPools, "secret %q is for pool %s, and machine %q is in %s: let it refer to another one, or put the secret for its pool too",
				name, strings.Join(pools, ", "), m.GetMachineId(), poolName(m.GetSpec().GetPool())).with("secret", name)
		}
	}
	return nil
}

// checkNarrowed refuses to limit a secret to pools while machines of others refer to it.
func (t *tx) checkNarrowed(s *holdfastv1.Secret, was []string, exists bool) *Error {
	if len(s.GetPools()) == 0 || exists && len(was) > 0 && secretWithin(&holdfastv1.Secret{Pools: was}, s.GetPools()) {
		return nil // no machine is left out: there may be very many to look at
	}
	for _, m := range t.machines.scan(machinesBySecret, secretKey(s.GetName()), "") {
		if p := m.GetSpec().GetPool(); !slices.Contains(s.GetPools(), p) {
			return refuse(FailedPrecondition, ReasonSecretInUse, "machine %q in %s refers to secret %q, which would be for pool %s alone: let it refer to another one first",
				m.GetMachineId(), poolName(p), s.GetName(), strings.Join(s.GetPools(), ", ")).with("secret", s.GetName()).with("machine_id", m.GetMachineId())
		}
	}
	return nil
}
