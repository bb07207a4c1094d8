package fsm

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-metal/holdfast/fsm/internal/access"
	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
)

// checkOrigin refuses a command that its caller may not give: the token is no longer valid,
// or the command is outside the caller's scope. Apply checks this and not only the edge,
// because tokens are revoked and machines change pools while commands are in transit.
func checkOrigin(t *core.Tx, about subject) *Error {
	o := t.Command.GetOrigin()
	if o.GetTokenId() != "" {
		s, ok := t.Tokens.Get(o.GetTokenId())
		if !ok {
			return refuse(Unauthenticated, ReasonTokenUnknown, "token %q is unknown: ask for another one",
				lex.Ident(o.GetTokenId()))
		}
		tok := s.GetToken()
		if err := access.TokenGood(tok, t.Now.AsTime()); err != nil {
			return err
		}
		// The token's own scope counts too: an edge that omits it must not widen it.
		if err := within(t, about, tok.GetPools(), tok.GetMachineId()); err != nil {
			return err
		}
	}
	return within(t, about, o.GetPools(), o.GetMachineId())
}

// within refuses a command about anything outside some pools (none: all pools are allowed) or
// outside one machine (empty: any machine is allowed).
func within(t *core.Tx, about subject, pools []string, machineID string) *Error {
	if machineID != "" {
		return onlyMachine(t, about, machineID)
	}
	if len(pools) == 0 {
		return nil
	}
	scope := fmt.Sprintf("your scope is pool %s", strings.Join(pools, ", "))
	if len(about.machines) == 0 && len(about.pools) == 0 {
		return outOfScope("%s belongs to no pool, and %s", about.resource, scope)
	}
	for _, id := range about.machines {
		m, ok := t.Machines.Get(id)
		if !ok {
			continue // the command reports it; if it makes the machine, about.pools has the pool
		}
		if p := m.GetSpec().GetPool(); !slices.Contains(pools, p) {
			return outOfScope("machine %q is in %s, and %s", id, access.PoolName(p), scope).
				With("machine_id", id).With("pool", p)
		}
	}
	for _, p := range about.pools {
		if !slices.Contains(pools, p) {
			if p == "" {
				return outOfScope("%s would be in no pool, and %s: name the pool", about.resource, scope)
			}
			return outOfScope("%s is about pool %q, and %s", about.resource, p, scope).With("pool", p)
		}
	}
	return ownSecrets(t, about, pools, scope)
}

func onlyMachine(t *core.Tx, about subject, machineID string) *Error {
	if len(about.machines) == 0 {
		return outOfScope("%s is not machine %q, and this token is valid for that machine only",
			about.resource, machineID)
	}
	for _, id := range about.machines {
		if id != machineID {
			return outOfScope("machine %q is not machine %q, and this token is valid for that machine only",
				id, machineID).
				With("machine_id", id)
		}
	}
	m, ok := t.Machines.Get(machineID)
	for _, p := range about.pools {
		if !ok || m.GetSpec().GetPool() != p { // an agent does not choose its pool
			return outOfScope("machine %q is in %s, and its agent cannot move it to %s",
				machineID, access.PoolName(m.GetSpec().GetPool()), access.PoolName(p)).
				With("machine_id", machineID).With("pool", p)
		}
	}
	return ownSecrets(t, about, nil, "you are its agent") // an agent owns no secrets
}

func outOfScope(format string, args ...any) *Error {
	return refuse(PermissionDenied, ReasonOutOfScope, format, args...)
}

// scoped reports whether the caller is limited to some pools or to a machine.
func scoped(t *core.Tx) bool {
	o := t.Command.GetOrigin()
	if len(o.GetPools()) > 0 || o.GetMachineId() != "" {
		return true
	}
	s, ok := t.Tokens.Get(o.GetTokenId())
	return ok && (len(s.GetToken().GetPools()) > 0 || s.GetToken().GetMachineId() != "")
}

// Ownership of secrets. A secret that is limited to pools works only for machines of these
// pools, for every caller. A caller that is limited to pools owns the secrets whose
// pools are all among them. It does not own a secret for all pools, or one that does not
// exist yet. A machine's secrets are sent to its provider and endpoints, so a caller must own
// the secrets it sends somewhere.

// clusterSecret is the prefix of secrets with the credentials of registered clusters:
// cluster/REF.
const clusterSecret = "cluster/"

// ownSecrets refuses a command that sends a secret its caller does not own. The error does
// not reveal whether the secret exists.
func ownSecrets(t *core.Tx, about subject, pools []string, scope string) *Error {
	for _, name := range about.secrets {
		s, _ := t.Secrets.Get(name)
		if access.SecretWithin(s.GetSecret(), pools) {
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
