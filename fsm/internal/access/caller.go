package access

import (
	"slices"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
)

// ClusterSecret is the prefix of secrets with the credentials of registered clusters: cluster/REF.
const ClusterSecret = "cluster/"

// Scoped reports whether the caller of a command is limited to some pools or to a machine.
func Scoped(t *core.Tx) bool {
	o := t.Command.GetOrigin()
	if len(o.GetPools()) > 0 || o.GetMachineId() != "" {
		return true
	}
	s, ok := t.Tokens.Get(o.GetTokenId())
	return ok && (len(s.GetToken().GetPools()) > 0 || s.GetToken().GetMachineId() != "")
}

// Sees reports whether the caller of a command may see what belongs to a pool. The agent of a
// machine sees no pool.
func Sees(t *core.Tx, pool string) bool {
	o := t.Command.GetOrigin()
	s, _ := t.Tokens.Get(o.GetTokenId())
	if o.GetMachineId() != "" || s.GetToken().GetMachineId() != "" {
		return false
	}
	for _, pools := range [][]string{o.GetPools(), s.GetToken().GetPools()} {
		if len(pools) > 0 && !slices.Contains(pools, pool) {
			return false
		}
	}
	return true
}
