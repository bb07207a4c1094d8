package auth

import (
	"context"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Command returns a command on behalf of the caller. The FSM checks it against the
// caller's token and scope, and writes the audit event. Without a caller, as in tests of
// handlers, the command is anonymous and writes no audit event.
func Command(ctx context.Context) *internalv1.Command {
	c := &internalv1.Command{Principal: "anonymous"}
	from := CallerFrom(ctx)
	if from == nil {
		return c
	}
	id := from.Identity
	c.Principal = id.GetPrincipal()
	role := id.GetRole()
	if role == holdfastv1.Role_BACKUP {
		role = holdfastv1.Role_ROLE_UNSPECIFIED // peers of feature level 1 stop at an unknown role
	}
	c.Origin = &internalv1.Origin{
		Source:    from.Source,
		Peer:      from.Peer,
		Method:    from.Method,
		TokenId:   id.GetTokenId(),
		Pools:     id.GetPools(),
		MachineId: id.GetMachineId(),
		Role:      role,
	}
	return c
}
