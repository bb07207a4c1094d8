package kinds

import (
	"context"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Secret returns the kind of secrets.
func Secret() output.Kind[*holdfastv1.Secret] {
	return output.Kind[*holdfastv1.Secret]{
		Noun: "secret", List: "secrets",
		Name:   (*holdfastv1.Secret).GetName,
		Header: []string{"SECRET", "TYPE", "VALUES", "POOLS", "VERSION", "KEY", "USES", "UPDATED"},
		Wide:   []string{"BY", "CREATED", "USED BY"},
		Row: func(s *holdfastv1.Secret, now time.Time) []any {
			return []any{
				s.GetName(), s.GetType(), strings.Join(s.GetKeys(), ","), strings.Join(s.GetPools(), ","),
				s.GetVersion(), s.GetKeyId(), s.GetUses(), app.Age(now, s.GetUpdatedAt()),
				s.GetUpdatedBy(), app.Age(now, s.GetCreatedAt()), strings.Join(s.GetUsedBy(), ","),
			}
		},
		Page: func(ctx context.Context, c *client.Client, q output.Query) ([]*holdfastv1.Secret, string, error) {
			r, err := c.Secrets().ListSecrets(ctx, &holdfastv1.ListSecretsRequest{PageSize: q.Size, PageToken: q.Token})
			return r.GetSecrets(), r.GetNextPageToken(), err
		},
		Get: getSecret,
	}
}

func getSecret(ctx context.Context, c *client.Client, id string) (*holdfastv1.Secret, error) {
	return c.Secrets().GetSecret(ctx, &holdfastv1.GetSecretRequest{Name: id})
}
