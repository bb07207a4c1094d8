package fsm

import (
	"slices"
	"strings"

	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Ownership of secrets. A secret that is limited to pools works only for machines of these
// pools, whoever the caller is. A caller that is limited to pools owns the secrets whose
// pools are all among them. It does not own a secret for all pools, or one that does not
// exist yet. A machine's secrets are sent to its provider and endpoints, so a caller must own
// the secrets it sends somewhere.

// clusterSecret is the prefix of secrets with the credentials of registered clusters:
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

// sent returns the secrets that a change of a machine would send somewhere else: those that
// it newly refers to, and all of them if its provider or an endpoint changes. old is nil for
// a new machine.
func sent(old, m *holdfastv1.Machine) []string {
	if old == nil || movesHardware(old, m) {
		return schema.Credentials(m)
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

// movesHardware reports whether a change makes a machine refer to other hardware.
func movesHardware(old, m *holdfastv1.Machine) bool {
	return ProviderOf(old) != ProviderOf(m) || old.GetSpec().GetBmcEndpoint() != m.GetSpec().GetBmcEndpoint() ||
		old.GetSpec().GetSshEndpoint() != m.GetSpec().GetSshEndpoint()
}

// ownSecrets refuses a command that sends a secret its caller does not own. The error does
// not reveal whether the secret exists.
func (t *tx) ownSecrets(about subject, pools []string, scope string) *Error {
	for _, name := range about.secrets {
		s, _ := t.secrets.Get(name)
		if secretWithin(s.GetSecret(), pools) {
			continue
		}
		if ref, ok := strings.CutPrefix(name, clusterSecret); ok {
			return outOfScope("cluster %q is not limited to your pools, and %s: "+
				"register it with holdfast cluster-ref add %s --pool POOL",
				lex.Ident(ref), scope, lex.Ident(ref)).With("secret", lex.Ident(name))
		}
		return outOfScope("secret %q is not limited to your pools, and %s: "+
			"use another secret, and keep the address of machines that refer to this one",
			name, scope).
			With("secret", name)
	}
	return nil
}

// checkSecretPools refuses a machine that refers to a secret of other pools. It may refer to
// a secret that does not exist, because inventory is often loaded first.
func (t *tx) checkSecretPools(m *holdfastv1.Machine) *Error {
	for _, name := range schema.Credentials(m) {
		s, _ := t.secrets.Get(name)
		pools := s.GetSecret().GetPools()
		if len(pools) > 0 && !slices.Contains(pools, m.GetSpec().GetPool()) {
			return refuse(FailedPrecondition, ReasonSecretPools,
				"secret %q is for pool %s, and machine %q is in %s: "+
					"let it refer to another one, or allow its pool in the secret",
				name, strings.Join(pools, ", "), m.GetMachineId(), poolName(m.GetSpec().GetPool())).With("secret", name)
		}
	}
	return nil
}

// checkNarrowed refuses to limit a secret to some pools while machines of others refer to it.
func (t *tx) checkNarrowed(s *holdfastv1.Secret, was []string, exists bool) *Error {
	if len(s.GetPools()) == 0 || exists && len(was) > 0 && secretWithin(&holdfastv1.Secret{Pools: was}, s.GetPools()) {
		return nil // no machine is excluded, so skip the scan of many machines
	}
	for _, m := range t.machines.Scan(schema.MachinesBySecret, schema.SecretKey(s.GetName()), "") {
		if p := m.GetSpec().GetPool(); !slices.Contains(s.GetPools(), p) {
			return refuse(FailedPrecondition, ReasonSecretInUse,
				"machine %q in %s refers to secret %q, which would be for pool %s only: "+
					"let it refer to another one first",
				m.GetMachineId(), poolName(p), s.GetName(), strings.Join(s.GetPools(), ", ")).
				With("secret", s.GetName()).With("machine_id", m.GetMachineId())
		}
	}
	return nil
}
