package lists

import (
	"cmp"
	"context"
	"strings"

	"google.golang.org/grpc"

	"github.com/holdfast-metal/holdfast/internal/describe"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/server/ui/internal/display"
)

func tokens() Kind {
	return Kind{
		Name: "tokens", Title: "Tokens", One: "token", Many: "tokens",
		Method:  "AccessService/ListTokens",
		Example: `role = OPERATOR AND state = "active"`,
		Hints: []Hint{
			{"active", `state = "active"`},
			{"expired", `state = "expired"`},
			{"revoked", `state = "revoked"`},
			{"of admins", "role = ADMIN"},
		},
		Create: "holdfast token create --name alice --role viewer",
		Note: "The value of a token is shown once, when it is created. " +
			"To revoke one: `holdfast token revoke TOKEN`",
		Columns: []string{"Token", "Name", "Role", "Scope", "State", "Created", "By", "Expires", "Comment"},
		Read: func(ctx context.Context, c grpc.ClientConnInterface, q Query) (Part, error) {
			resp, err := holdfastv1.NewAccessServiceClient(c).ListTokens(ctx, &holdfastv1.ListTokensRequest{
				Filter: q.Filter, PageSize: q.Size, PageToken: q.Page,
			})
			return Part{rowsOf(resp.GetTokens(), tokenRow), resp.GetNextPageToken()}, err
		},
	}
}

func tokenRow(t *holdfastv1.Token) Row {
	scope := display.Text(strings.Join(t.GetPools(), ", "))
	if t.GetMachineId() != "" {
		scope = display.Machines(t.GetMachineId())
	}
	expires := display.When(t.GetExpiresAt())
	if expires.Empty() {
		expires = display.Text("never")
	}
	state := display.Badge(t.GetState(), map[string]string{"active": "active", "revoked": "failed"}[t.GetState()])
	return Row{t.GetTokenId(), []display.Cell{
		display.ID(t.GetTokenId()),
		display.Text(t.GetName()),
		display.Text(display.Label(t.GetRole())),
		scope,
		state.And(display.When(t.GetRevokedAt())),
		display.When(t.GetCreatedAt()),
		display.Text(t.GetCreatedBy()),
		expires,
		display.Long(t.GetComment()),
	}}
}

func secrets() Kind {
	return Kind{
		Name: "secrets", Title: "Secrets", One: "secret", Many: "secrets",
		Method: "SecretService/ListSecrets",
		Create: "holdfast secret put bmc/r7 --type bmc --username root --from-file password=FILE",
		Note:   "Values cannot be read back. To seal all secrets with the newest key: `holdfast secret rotate`",
		Columns: []string{
			"Secret", "Type", "Values", "Pools", "Version", "Key", "Updated", "By", "Used by",
		},
		Read: func(ctx context.Context, c grpc.ClientConnInterface, q Query) (Part, error) {
			resp, err := holdfastv1.NewSecretServiceClient(c).ListSecrets(ctx, &holdfastv1.ListSecretsRequest{
				PageSize: q.Size, PageToken: q.Page,
			})
			return Part{rowsOf(resp.GetSecrets(), secretRow), resp.GetNextPageToken()}, err
		},
	}
}

func secretRow(s *holdfastv1.Secret) Row {
	uses := display.Machines(s.GetUsedBy()...)
	if more := int(s.GetUses()) - len(s.GetUsedBy()); more > 0 {
		uses = uses.And(display.Text("and " + describe.Count(more) + " more"))
	}
	return Row{s.GetName(), []display.Cell{
		display.ID(s.GetName()),
		display.Text(s.GetType()),
		display.Text(strings.Join(s.GetKeys(), ", ")),
		display.Text(cmp.Or(strings.Join(s.GetPools(), ", "), "all")),
		display.Number(s.GetVersion()),
		display.ID(s.GetKeyId()),
		display.When(s.GetUpdatedAt()),
		display.Text(s.GetUpdatedBy()),
		uses,
	}}
}
