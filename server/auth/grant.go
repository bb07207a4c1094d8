package auth

import (
	"slices"
	"strings"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// grant is a role and the pools it is scoped to. Without pools it applies to all of them.
type grant struct {
	role  holdfastv1.Role_Value
	pools []string
}

// goodPool reports whether s is a valid pool id: visible ASCII without a comma, as in the
// FSM.
func goodPool(s string) bool {
	return s != "" && len(s) <= maxName &&
		!strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || r == ',' })
}

// parseGrant parses "operator" or "operator@pool". Roles ignore case. Any other text is
// ignored, because certificates and claims also contain unrelated words. Admins, services
// and backups cannot be scoped, so "admin@pool" grants nothing.
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

// highest returns the highest role among the grants, with all pools named for that role.
// If one of those grants names no pool, the result is not scoped. Pools of lower roles
// are ignored. The order of the grants does not matter.
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
