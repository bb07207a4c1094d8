package auth

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Rule says who may call a method or a route. Exactly one of its kinds is set: Public, Anyone,
// Peers, or a least role. Admins may call everything but what is for peers.
type Rule struct {
	// Public takes calls of everybody, and does not look at who they are.
	Public bool
	// Unlimited exempts a public rule from the limits of public calls: health checks, which must
	// pass while a client floods the peer, and downloads, which have limits of their own: a BMC
	// reads a virtual medium in very many small requests.
	Unlimited bool
	// OverHTTP limits a public method to the HTTP routes of this process and to peers, which
	// forward calls. Over gRPC a caller could name any address as its own, at an address that boot
	// scripts are not served at.
	OverHTTP bool
	// Anyone takes calls of all who are somebody, whatever their role.
	Anyone bool
	// Peers takes calls of this cluster's peers alone.
	Peers bool
	// Least is the role of viewers, operators and admins that it takes.
	Least holdfastv1.Role_Value
	// Also are roles of agents and services.
	Also []holdfastv1.Role_Value
	// Unscoped refuses those who are scoped to pools: it is about the whole cluster.
	Unscoped bool
	// Own holds what an agent asks for against what it is; nil where the FSM does it, or there is
	// nothing to check.
	Own func(id *holdfastv1.Identity, req proto.Message) bool
}

// set reports whether the rule says anything.
func (r *Rule) set() bool {
	return r.Public || r.Anyone || r.Peers || r.Least != holdfastv1.Role_ROLE_UNSPECIFIED || len(r.Also) > 0
}

// allows reports why somebody may not call what the rule is for, or nil. Req is nil if it has not
// been read yet.
func (r *Rule) allows(id *holdfastv1.Identity, req proto.Message, what string) *Error {
	role := id.GetRole()
	switch {
	case r.Public:
		return nil
	case r.Peers:
		if isPeer(id) || id.GetMethod() == MethodInsecure {
			return nil
		}
		return denied(ReasonPeersOnly, "%s is for peers of this cluster: the certificate of %s is not a peer's", what, id.GetPrincipal())
	case isPeer(id):
		return denied(ReasonRole, "%s may not call %s: a peer's certificate is for the cluster itself; use one with a role, or a token", id.GetPrincipal(), what)
	case r.Anyone, role == holdfastv1.Role_ADMIN:
		return nil
	case rank(role) > rank(holdfastv1.Role_SERVICE):
		return r.allowsPerson(id, what)
	case !slices.Contains(r.Also, role):
		return denied(ReasonRole, "%s has the role %s, which may not call %s: it takes %s", id.GetPrincipal(), roleName(role), what, r.Needs())
	case role == holdfastv1.Role_AGENT && id.GetMachineId() == "", (role == holdfastv1.Role_POOL_AGENT || role == holdfastv1.Role_ENROLLER) && len(id.GetPools()) == 0:
		return denied(ReasonNotOwn, "the token of %s names no machine and no pool: make a new one", id.GetPrincipal())
	case req != nil && r.Own != nil && !r.Own(id, req):
		return denied(ReasonNotOwn, "%s may call %s for itself only", id.GetPrincipal(), what)
	}
	return nil
}

// allowsPerson is allows for viewers and operators.
func (r *Rule) allowsPerson(id *holdfastv1.Identity, what string) *Error {
	if r.Least == holdfastv1.Role_ROLE_UNSPECIFIED || rank(id.GetRole()) < rank(r.Least) {
		return denied(ReasonRole, "%s has the role %s, which may not call %s: it takes %s", id.GetPrincipal(), roleName(id.GetRole()), what, r.Needs())
	}
	if r.Unscoped && Scoped(id) {
		return denied(ReasonScope, "%s is scoped to the pools %s: %s takes an %s who is scoped to none", id.GetPrincipal(), strings.Join(id.GetPools(), ", "), what, roleName(r.Least))
	}
	return nil
}

// Lets reports whether somebody may call, as far as the role goes: what a user interface offers.
// Whether the resource is theirs is checked when they call.
func (r *Rule) Lets(id *holdfastv1.Identity) bool { return r.allows(id, nil, "") == nil }

// Needs words who may call, for errors and docs/security.md.
func (r *Rule) Needs() string {
	switch {
	case r.Public && r.OverHTTP:
		return "peers, anybody over HTTP"
	case r.Public:
		return "anybody"
	case r.Anyone:
		return "anybody with credentials"
	case r.Peers:
		return "peers"
	}
	least := r.Least
	if least == holdfastv1.Role_ROLE_UNSPECIFIED {
		least = holdfastv1.Role_ADMIN
	}
	who := []string{roleName(least)}
	if r.Unscoped {
		who[0] += " of all pools"
	}
	for _, a := range r.Also {
		who = append(who, roleName(a))
	}
	return strings.Join(who, ", ")
}

// roleName is how people write a role.
func roleName(r holdfastv1.Role_Value) string {
	if r == holdfastv1.Role_ROLE_UNSPECIFIED {
		return "none"
	}
	return strings.ReplaceAll(strings.ToLower(r.String()), "_", "-")
}

// Public is the rule of what everybody may call.
func Public() Rule { return Rule{Public: true} }

// Health is the rule of health checks: Public, without a limit.
func Health() Rule { return Rule{Public: true, Unlimited: true} }

// Download is the rule of files that are served without credentials and limit their downloads
// themselves.
func Download() Rule { return Rule{Public: true, Unlimited: true} }

// Least is the rule of what takes a role at least, in whatever pools.
func Least(role holdfastv1.Role_Value) Rule { return Rule{Least: role} }

// SameAs is the rule of an RPC, for the HTTP route that leads to it:
// "holdfast.v1.NodeService/CreateNode". Own is left to the RPC. A name without a rule gives one
// that refuses all.
func SameAs(method string) Rule {
	r := policy()[method]
	r.Own, r.OverHTTP = nil, false
	return r
}
