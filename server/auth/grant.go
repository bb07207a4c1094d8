package auth

import (
	"slices"
	"strings"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// grant is a role and the pools that it is scoped to; none: all of them.
type grant struct {
	role  holdfastv1.Role_Value
	pools []string
}

// goodPool reports whether a pool can be called so: visible ASCII, no comma, as the FSM has it.
func goodPool(s string) bool {
	return s != "" && len(s) <= maxName && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || r == ',' })
}

// parseGrant reads "operator" or "operator@pool". Case does not matter in roles. What is none of
// that grants nothing: certificates and claims hold other people's words too. Admins, services and
// backups are not scoped: "admin@pool" grants nothing.
func parseGrant(text string) (grant, bool) {
	name, pool, scoped := strings.Cut(text, "@")
	var g grant
	switch strings.ToLower(name) {
	case "service":
		g.role = holdfastv1.Role_SERVICE
	case "backup":
		g.role = holdfastv1.Role_BACKUP
	case "viewer":
		g.role = holdfastv1.Role_VIEWER
	case "operator":
		g.role = holdfastv1.Role_OPERATOR
	case "admin":
		g.role = holdfastv1.Role_ADMIN
	default:
		return grant{}, false
	}
	if !scoped {
		return g, true
	}
	if g.role != holdfastv1.Role_VIEWER && g.role != holdfastv1.Role_OPERATOR || !goodPool(pool) {
		return grant{}, false
	}
	g.pools = []string{pool}
	return g, true
}

// rank orders the roles that certificates and claims can name.
func rank(r holdfastv1.Role_Value) int {
	return slices.Index([]holdfastv1.Role_Value{
		holdfastv1.Role_ROLE_UNSPECIFIED, holdfastv1.Role_BACKUP, holdfastv1.Role_SERVICE, holdfastv1.Role_VIEWER, holdfastv1.Role_OPERATOR, holdfastv1.Role_ADMIN,
	}, r)
}

// highest sums up grants: the highest role wins, with all the pools that it is named with. Named
// once without a pool it is not scoped. Pools of lower roles do not count. The order of the grants
// does not matter.
func highest(texts []string) grant {
	var best grant
	for _, t := range texts {
		g, ok := parseGrant(t)
		switch {
		case !ok || rank(g.role) < rank(best.role):
		case rank(g.role) > rank(best.role):
			best = g
		case len(g.pools) == 0 || len(best.pools) == 0:
			best.pools = nil
		default:
			best.pools = append(best.pools, g.pools...)
		}
	}
	slices.Sort(best.pools)
	best.pools = slices.Compact(best.pools)
	return best
}
