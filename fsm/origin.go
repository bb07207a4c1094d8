package fsm

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// checkOrigin refuses a command that its caller may not give: the token is no longer valid,
// or the command is outside the caller's scope. Apply checks this and not only the edge,
// because tokens are revoked and machines change pools while commands are in transit.
func (t *tx) checkOrigin(about subject) *Error {
	o := t.cmd.GetOrigin()
	if o.GetTokenId() != "" {
		s, ok := t.tokens.Get(o.GetTokenId())
		if !ok {
			return refuse(Unauthenticated, ReasonTokenUnknown, "token %q is unknown: ask for another one",
				lex.Ident(o.GetTokenId()))
		}
		tok := s.GetToken()
		if err := TokenGood(tok, t.now.AsTime()); err != nil {
			return err
		}
		// The token's own scope counts too: an edge that omits it must not widen it.
		if err := t.within(about, tok.GetPools(), tok.GetMachineId()); err != nil {
			return err
		}
	}
	return t.within(about, o.GetPools(), o.GetMachineId())
}

// within refuses a command that subject anything outside some pools (none: all pools are
// allowed) or outside one machine (empty: any machine is allowed).
func (t *tx) within(about subject, pools []string, machineID string) *Error {
	if machineID != "" {
		return t.onlyMachine(about, machineID)
	}
	if len(pools) == 0 {
		return nil
	}
	scope := fmt.Sprintf("your scope is pool %s", strings.Join(pools, ", "))
	if len(about.machines) == 0 && len(about.pools) == 0 {
		return outOfScope("%s belongs to no pool, and %s", orThis(about.resource), scope)
	}
	for _, id := range about.machines {
		m, ok := t.machines.Get(id)
		if !ok {
			continue // the command reports it; if it makes the machine, about.pools has the pool
		}
		if p := m.GetSpec().GetPool(); !slices.Contains(pools, p) {
			return outOfScope("machine %q is in %s, and %s", id, poolName(p), scope).
				With("machine_id", id).With("pool", p)
		}
	}
	for _, p := range about.pools {
		if !slices.Contains(pools, p) {
			if p == "" {
				return outOfScope("%s would be in no pool, and %s: name the pool", orThis(about.resource), scope)
			}
			return outOfScope("%s is about pool %q, and %s", orThis(about.resource), p, scope).With("pool", p)
		}
	}
	return t.ownSecrets(about, pools, scope)
}

func (t *tx) onlyMachine(about subject, machineID string) *Error {
	if len(about.machines) == 0 {
		return outOfScope("%s is not machine %q, and this token is valid for that machine only",
			orThis(about.resource), machineID)
	}
	for _, id := range about.machines {
		if id != machineID {
			return outOfScope("machine %q is not machine %q, and this token is valid for that machine only",
				id, machineID).
				With("machine_id", id)
		}
	}
	m, ok := t.machines.Get(machineID)
	for _, p := range about.pools {
		if !ok || m.GetSpec().GetPool() != p { // an agent does not choose its pool
			return outOfScope("machine %q is in %s, and its agent cannot move it to %s",
				machineID, poolName(m.GetSpec().GetPool()), poolName(p)).
				With("machine_id", machineID).With("pool", p)
		}
	}
	return t.ownSecrets(about, nil, "you are its agent") // an agent owns no secrets
}

func outOfScope(format string, args ...any) *Error {
	return refuse(PermissionDenied, ReasonOutOfScope, format, args...)
}

func poolName(p string) string {
	if p == "" {
		return "no pool"
	}
	return fmt.Sprintf("pool %q", p)
}

func orThis(resource string) string {
	if resource == "" {
		return "this"
	}
	return resource
}

// subject is the subject of a command, as it is before the command changes anything.
type subject struct {
	resource string   // for the audit trail; contains only ids, so that no secret leaks
	machines []string // ids; those that exist must be in the caller's pools
	pools    []string // pools of new or moved machines; "" is no pool
	secrets  []string // secrets that the command would newly send somewhere
}

func named(kind, id string) subject { return subject{resource: kind + "/" + lex.Ident(id)} }

func machineSubject(id string) subject {
	return subject{resource: "machines/" + lex.Ident(id), machines: []string{id}}
}

func poolSubject(id string) subject {
	return subject{resource: "pools/" + lex.Ident(id), pools: []string{id}}
}

// runSubject returns the machine of a run as the subject. An unknown run belongs to no
// caller, and the command reports that it is unknown.
func (t *tx) runSubject(id string) subject {
	run, ok := t.runs.Get(id)
	if !ok {
		return subject{resource: "runs/" + lex.Ident(id), machines: []string{""}}
	}
	about := subject{resource: "machines/" + run.GetMachineId() + "/runs/" + run.GetRunId()}
	if t.machines.Has(run.GetMachineId()) { // a deleted one is in no pool
		about.machines = []string{run.GetMachineId()}
	}
	return about
}

// newMachine returns the subject of a command that finds a machine or makes it in a pool.
func (t *tx) newMachine(id, pool string) subject {
	about := machineSubject(id)
	if pool != "" || !t.machines.Has(id) {
		about.pools = []string{pool}
	}
	return about
}

// inventorySubject returns the subject of a command that replaces or merges a machine's spec.
// It includes the pool before and after.
func (t *tx) inventorySubject(in *holdfastv1.Machine, merge func(m *holdfastv1.Machine) *Error) subject {
	about := machineSubject(in.GetMachineId())
	// The rest is expensive and only needed for scoped callers.
	if in == nil || !t.scoped() {
		return about
	}
	old, exists := t.machines.Get(in.GetMachineId())
	m := &holdfastv1.Machine{Spec: &holdfastv1.MachineSpec{}}
	if exists {
		m = proto.CloneOf(old)
	}
	if merge(m) != nil {
		return about // the command is refused for the same reason
	}
	NormalizeMachine(m)
	about.pools, about.secrets = []string{m.GetSpec().GetPool()}, sent(old, m)
	if ref := m.GetSpec().GetTargetClusterRef(); t.has(Level2) && ref != "" &&
		ref != old.GetSpec().GetTargetClusterRef() {
		about.secrets = append(about.secrets, clusterSecret+ref)
	}
	return about
}

// startSubject returns the machine of a run as the subject, and the secrets that the run's
// parameters would send somewhere. These are the credentials of a cluster that the caller
// names, because a host that joins gets an identity there, and the machine's own if it moves
// to another address. The machine's target cluster needs no further permission.
func (t *tx) startSubject(c *internalv1.StartRun) subject {
	about := machineSubject(c.GetMachineId())
	if !t.has(Level2) {
		return about
	}
	m, _ := t.machines.Get(c.GetMachineId())
	if ref := c.GetParams()["cluster_ref"]; ref != "" && ref != m.GetSpec().GetTargetClusterRef() {
		about.secrets = append(about.secrets, clusterSecret+ref)
	}
	if to := c.GetParams()["new_ssh_endpoint"]; to != "" && to != m.GetSpec().GetSshEndpoint() {
		about.secrets = append(about.secrets, schema.Credentials(m)...)
	}
	return about
}

// scoped reports whether the caller is limited to some pools or to a machine.
func (t *tx) scoped() bool {
	o := t.cmd.GetOrigin()
	if len(o.GetPools()) > 0 || o.GetMachineId() != "" {
		return true
	}
	s, ok := t.tokens.Get(o.GetTokenId())
	return ok && (len(s.GetToken().GetPools()) > 0 || s.GetToken().GetMachineId() != "")
}

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
