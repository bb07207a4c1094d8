package fsm

import (
	"slices"
	"strings"

	"github.com/holdfast-metal/holdfast/fsm/internal/access"
	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	"github.com/holdfast-metal/holdfast/fsm/internal/runs"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// checkOrigin refuses a command that its caller may not give: the token is no longer valid,
// or the command is outside the caller's scope. Apply checks this and not only the edge,
// because tokens are revoked and machines change pools while commands are in transit.
func checkOrigin(t *core.Tx, about subject) *Error {
	o := t.Command.GetOrigin()
	if err := access.SessionGood(t, o); err != nil {
		return err
	}
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
	if about.anyScope {
		return nil
	}
	if machineID != "" {
		return onlyMachine(t, about, machineID)
	}
	if len(pools) == 0 {
		return nil
	}
	scope := scopeText(pools)
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
				With("machine_id", id).With("pool", p).Showing(about.missing(id))
		}
	}
	for _, p := range about.owners {
		if !slices.Contains(pools, p) {
			return outOfScope("%s belongs to %s, and %s", about.resource, access.PoolName(p), scope).
				With("pool", p).Showing(about.missing(""))
		}
	}
	for _, p := range about.pools {
		if !slices.Contains(pools, p) {
			if p == "" && about.fresh {
				return outOfScope("the request would make a machine in no pool, and %s", scope)
			}
			if p == "" {
				return outOfScope("%s would be in no pool, and %s: name the pool", about.resource, scope)
			}
			return outOfScope("%s is about pool %q, and %s", about.name(), p, scope).With("pool", p)
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
		if about.fresh {
			return outOfScope("the request would make a machine, and this token is valid for machine %q only", machineID)
		}
		if id != machineID {
			err := outOfScope("machine %q is not machine %q, and this token is valid for that machine only",
				id, machineID).
				With("machine_id", id)
			if about.id != "" || id == "" { // the caller has named the machine otherwise, and must not learn its id
				return err.Showing(outOfScope("the machine of the request is not machine %q, and this token is valid for that "+
					"machine only", machineID))
			}
			return err
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

// Ownership of secrets. A secret that is limited to pools works only for machines of these
// pools, for every caller. A caller that is limited to pools owns the secrets whose
// pools are all among them. It does not own a secret for all pools, or one that does not
// exist yet. A machine's secrets are sent to its provider and endpoints, so a caller must own
// the secrets it sends somewhere.

// ownSecrets refuses a command that sends a secret its caller does not own. The error does
// not reveal whether the secret exists.
func ownSecrets(t *core.Tx, about subject, pools []string, scope string) *Error {
	for _, name := range about.secrets {
		s, _ := t.Secrets.Get(name)
		if access.SecretWithin(s.GetSecret(), pools) {
			continue
		}
		if ref, ok := strings.CutPrefix(name, access.ClusterSecret); ok {
			return foreignCluster(ref, scope)
		}
		return outOfScope("secret %q is not limited to your pools, and %s: "+
			"use another secret, and keep the address of machines that refer to this one",
			name, scope).
			With("secret", name)
	}
	return nil
}

func foreignCluster(ref, scope string) *Error {
	return outOfScope("cluster %q is not limited to your pools, and %s: "+
		"register it with holdfast cluster-ref add %s --pool POOL",
		lex.Ident(ref), scope, lex.Ident(ref)).With("secret", lex.Ident(access.ClusterSecret+ref))
}

// CheckClusters returns an error if a run of a plan would use a cluster that a caller does not own,
// as StartRun does. The caller is limited to pools; without any it may use all clusters.
func (v *View) CheckClusters(
	pools []string, m *holdfastv1.Machine, plan *holdfastv1.Plan, params map[string]string,
) error {
	if len(pools) == 0 {
		return nil
	}
	for _, ref := range runs.Clusters(v.state, m, plan, params) {
		if s, _ := v.state.Secrets.Get(access.ClusterSecret + ref); !access.SecretWithin(s.GetSecret(), pools) {
			return foreignCluster(ref, scopeText(pools))
		}
	}
	return nil
}

// MayPropose returns the error that a command would get because of its caller: the token is not
// valid, or it is about something outside of the caller's scope. Dry runs use it.
func (v *View) MayPropose(c *internalv1.Command) error {
	found, ok := newCommandSet(v.stage).of(c)
	if !ok || c.GetOrigin() == nil {
		return nil
	}
	t := &core.Tx{State: v.state, Index: v.Index(), Command: c, Now: v.state.Meta.GetNow()}
	if err := checkOrigin(t, found.subject(t, c)); err != nil {
		return err.Answer()
	}
	return nil
}

func scopeText(pools []string) string { return "your scope is pool " + strings.Join(pools, ", ") }
