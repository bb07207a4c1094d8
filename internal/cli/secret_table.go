package cli

import (
	"context"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/client"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func secretKind() kind[*holdfastv1.Secret] {
	return kind[*holdfastv1.Secret]{
		noun: "secret", list: "secrets",
		name:   (*holdfastv1.Secret).GetName,
		header: []string{"SECRET", "TYPE", "VALUES", "POOLS", "VERSION", "KEY", "USES", "UPDATED"},
		wide:   []string{"BY", "CREATED", "USED BY"},
		row: func(s *holdfastv1.Secret, now time.Time) []any {
			return []any{
				s.GetName(), s.GetType(), strings.Join(s.GetKeys(), ","), strings.Join(s.GetPools(), ","),
				s.GetVersion(), s.GetKeyId(), s.GetUses(), age(now, s.GetUpdatedAt()),
				s.GetUpdatedBy(), age(now, s.GetCreatedAt()), strings.Join(s.GetUsedBy(), ","),
			}
		},
		page: func(ctx context.Context, c *client.Client, q query) ([]*holdfastv1.Secret, string, error) {
			r, err := c.Secrets().ListSecrets(ctx, &holdfastv1.ListSecretsRequest{PageSize: q.size, PageToken: q.token})
			return r.GetSecrets(), r.GetNextPageToken(), err
		},
		get: getSecret,
	}
}

func getSecret(ctx context.Context, c *client.Client, id string) (*holdfastv1.Secret, error) {
	return c.Secrets().GetSecret(ctx, &holdfastv1.GetSecretRequest{Name: id})
}
