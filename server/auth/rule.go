package auth

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Rule is the access rule of a method or a route. It sets exactly one of Public, Anyone,
// Peers, or a minimum role. Admins may call everything except the methods of peers.
type Rule struct {
	// Public allows every caller without authentication.
	Public bool
	// Unlimited exempts a public rule from the rate limits of public calls. Health checks
	// need it, because they must pass while a client floods the peer. Downloads have
	// their own limits: a BMC reads a virtual medium in very many small requests.
	Unlimited bool
	// Upload exempts the body of a route from the limits of size and time. The handler has
	// its own.
	Upload bool
	// OverHTTP limits a public method to the HTTP routes of this process and to peers,
	// which forward calls. Over gRPC a caller could claim any source address, on a
	// listener that does not serve boot scripts.
	OverHTTP bool
	// Anyone allows every authenticated caller, whatever its role.
	Anyone bool
	// Peers allows only peers of this cluster.
	Peers bool
	// Least is the minimum role: viewer, operator or admin.
	Least holdfastv1.Role_Value
	// Also are further allowed roles, of agents and services.
	Also []holdfastv1.Role_Value
	// Unscoped refuses callers that are scoped to pools: the method affects the whole
	// cluster.
	Unscoped bool
	// Does completes "may not" in refusals: "start runs". Empty: the name of the call.
	Does string
	// Own checks that an agent's request concerns the agent itself. It is nil if the FSM
	// checks it, or if there is nothing to check.
	Own func(id *holdfastv1.Identity, req proto.Message) bool
}

// set reports whether the rule allows any caller.
func (r *Rule) set() bool {
	return r.Public || r.Anyone || r.Peers || r.Least != holdfastv1.Role_ROLE_UNSPECIFIED || len(r.Also) > 0
}

// allows returns the refusal of an identity that may not call a method or route, or nil. What is
// its name. Req is nil if the request has not been read yet.
func (r *Rule) allows(id *holdfastv1.Identity, req proto.Message, what string) *Error {
	role := id.GetRole()
	switch {
	case r.Public:
		return nil
	case r.Peers:
		if isPeer(id) || id.GetMethod() == MethodInsecure {
			return nil
		}
		return denied(ReasonPeersOnly,
			"%s is only for peers of this cluster: the certificate of %s is not a peer's",
			what, id.GetPrincipal())
	case isPeer(id):
		return denied(ReasonRole,
			"%s may not %s: peer certificates have no role: use a client certificate or a token",
			id.GetPrincipal(), r.does(what))
	case r.Anyone, role == holdfastv1.Role_ADMIN:
		return nil
	case rank(role) > rank(holdfastv1.Role_SERVICE):
		return r.allowsPerson(id, what)
	case !slices.Contains(r.Also, role):
		return r.wrongRole(id, what)
	case role == holdfastv1.Role_AGENT && id.GetMachineId() == "",
		(role == holdfastv1.Role_POOL_AGENT || role == holdfastv1.Role_ENROLLER) && len(id.GetPools()) == 0:
		return denied(ReasonNotOwn, "the token of %s names no machine and no pool: create a new one", id.GetPrincipal())
	case req != nil && r.Own != nil && !r.Own(id, req):
		return denied(ReasonNotOwn, "%s may %s for itself only", callerName(id), r.does(what))
	}
	return nil
}

// rank orders the roles that a certificate or claim can name.
func rank(r holdfastv1.Role_Value) int {
	return slices.Index([]holdfastv1.Role_Value{
		holdfastv1.Role_ROLE_UNSPECIFIED,
		holdfastv1.Role_BACKUP,
		holdfastv1.Role_SERVICE,
		holdfastv1.Role_VIEWER,
		holdfastv1.Role_OPERATOR,
		holdfastv1.Role_ADMIN,
	}, r)
}

// wrongRole returns the refusal of an identity whose role does not allow a call.
func (r *Rule) wrongRole(id *holdfastv1.Identity, what string) *Error {
	role := r.Least
	if role == holdfastv1.Role_ROLE_UNSPECIFIED {
		role = append(slices.Clone(r.Also), holdfastv1.Role_ADMIN)[0]
	}
	remedy := "an admin creates a token with `holdfast token create --role " + roleName(role) + "`"
	if id.GetMethod() == MethodOIDC && strings.HasPrefix(id.GetPrincipal(), "user:") {
		remedy = "an admin maps a role or group that your identity provider gives you to one in oidc_issuers"
	}
	return denied(ReasonRole, "%s may not %s: this needs the role %s: %s", callerName(id), r.does(what),
		strings.ReplaceAll(r.Needs(), ", ", " or "), remedy)
}

// allowsPerson is allows for viewers and operators.
func (r *Rule) allowsPerson(id *holdfastv1.Identity, what string) *Error {
	if r.Least == holdfastv1.Role_ROLE_UNSPECIFIED || rank(id.GetRole()) < rank(r.Least) {
		return r.wrongRole(id, what)
	}
	if r.Unscoped && Scoped(id) {
		return denied(ReasonScope, "%s is scoped to the pools %s and may not %s: this needs an %s without a scope",
			callerName(id), strings.Join(id.GetPools(), ", "), r.does(what), roleName(r.Least))
	}
	return nil
}

// Lets reports whether the role of an identity allows the call. User interfaces offer only such
// calls. The call itself also checks the resource.
func (r *Rule) Lets(id *holdfastv1.Identity) bool { return r.allows(id, nil, "") == nil }

// Needs returns the callers that the rule allows, for errors and docs/permissions.md.
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

// roleName returns a role as users write it.
func roleName(r holdfastv1.Role_Value) string {
	if r == holdfastv1.Role_ROLE_UNSPECIFIED {
		return "none"
	}
	return strings.ReplaceAll(strings.ToLower(r.String()), "_", "-")
}

// Public returns a rule that allows every caller without authentication.
func Public() Rule { return Rule{Public: true} }

// Health returns the rule of health checks: Public without a rate limit.
func Health() Rule { return Rule{Public: true, Unlimited: true} }

// Download returns the rule of files that are served without credentials, and whose
// handlers limit downloads themselves.
func Download() Rule { return Rule{Public: true, Unlimited: true} }

// Least returns a rule with a minimum role, for any scope.
func Least(role holdfastv1.Role_Value) Rule { return Rule{Least: role} }

// SameAs returns the rule of an RPC ("holdfast.v1.NodeService/CreateNode") for its HTTP
// route. It leaves Own to the RPC. If the method has no rule, the returned rule allows no
// caller.
func SameAs(method string) Rule {
	m := methodOf(method)
	if m == nil {
		return Rule{}
	}
	r, _ := ruleOf(m)
	r.Own, r.OverHTTP = nil, false
	return r
}
