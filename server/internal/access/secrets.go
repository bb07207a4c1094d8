package access

import (
	"context"
	"errors"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/secrets"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/internal/edge"
	"github.com/holdfast-metal/holdfast/server/internal/page"
	"github.com/holdfast-metal/holdfast/server/internal/request"
)

// Secrets implements SecretService (docs/secrets.md). The leader serves writes and
// encrypts with its own keys.
type Secrets struct {
	holdfastv1.UnimplementedSecretServiceServer
	*edge.Peer
	keys *secrets.Keyring
}

// NewSecrets returns the service of a peer. Without keys no secret can be stored.
func NewSecrets(peer *edge.Peer, keys *secrets.Keyring) *Secrets {
	return &Secrets{Peer: peer, keys: keys}
}

// PutSecret stores a secret, or a new version of it.
func (s *Secrets) PutSecret(ctx context.Context, r *holdfastv1.PutSecretRequest) (*holdfastv1.Secret, error) {
	if err := request.Violations(append(checkSecret(r), s.deniedServer(r)...)); err != nil {
		return nil, err
	}
	if _, ok := s.keys.Primary(); !ok {
		return nil, keyMissing(secrets.ErrNoKey)
	}
	return edge.RetryAborted(func() (*holdfastv1.Secret, error) {
		v, err := s.Cluster.View(ctx)
		if err != nil {
			return nil, err
		}
		old, _ := v.Secret(r.GetName())
		secret := &holdfastv1.Secret{
			Name: r.GetName(), Type: r.GetType(), Version: old.GetSecret().GetVersion() + 1, Pools: r.GetPools(),
		}
		sealed, err := s.keys.Put(secret, r.GetValues())
		if err != nil {
			return nil, keyMissing(err)
		}
		c := auth.Command(ctx)
		c.Op = &internalv1.Command_PutSecret{
			PutSecret: &internalv1.PutSecret{Secret: sealed, AllPools: r.GetAllPools()},
		}
		return edge.Apply[*holdfastv1.Secret](ctx, s.Cluster, c)
	})
}

// GetSecret returns the record of a secret without its values.
func (s *Secrets) GetSecret(ctx context.Context, r *holdfastv1.GetSecretRequest) (*holdfastv1.Secret, error) {
	v, err := request.View(ctx, s.Cluster.View, "name", r.GetName())
	if err != nil {
		return nil, err
	}
	stored, ok := v.Secret(r.GetName())
	if !ok {
		return nil, request.NotFound("SECRET_NOT_FOUND", "secret", r.GetName())
	}
	return stored.GetSecret(), nil
}

// ListSecrets lists secrets by name, without their values.
func (s *Secrets) ListSecrets(
	ctx context.Context, r *holdfastv1.ListSecretsRequest,
) (*holdfastv1.ListSecretsResponse, error) {
	p, v, err := page.Open(ctx, s.Cluster.View, r, "secrets")
	if err != nil {
		return nil, err
	}
	rows := func(yield func(string, *holdfastv1.Secret) bool) {
		for stored := range v.Secrets(p.After) {
			if !yield(stored.GetSecret().GetName(), stored.GetSecret()) {
				return
			}
		}
	}
	resp := &holdfastv1.ListSecretsResponse{}
	resp.Secrets, resp.NextPageToken, err = page.Collect(ctx, p, rows, nil)
	return resp, err
}

// DeleteSecret deletes a secret. Without force, no machine may refer to it.
func (s *Secrets) DeleteSecret(
	ctx context.Context, r *holdfastv1.DeleteSecretRequest,
) (*holdfastv1.DeleteSecretResponse, error) {
	if err := request.Required("name", r.GetName()); err != nil {
		return nil, err
	}
	c := auth.Command(ctx)
	c.Op = &internalv1.Command_DeleteSecret{
		DeleteSecret: &internalv1.DeleteSecret{Name: r.GetName(), Force: r.GetForce()},
	}
	return edge.ApplyEmpty[holdfastv1.DeleteSecretResponse](ctx, s.Cluster, c)
}

// keyMissing returns the error of a leader that lacks the key to encrypt or decrypt a
// secret.
func keyMissing(err error) error {
	unknown := new(secrets.UnknownKeyError)
	switch {
	case errors.As(err, &unknown):
		return &fsm.Error{
			Code: fsm.FailedPrecondition, Reason: "SECRETS_KEY_MISSING",
			Message: "the leader cannot decrypt secrets: " + err.Error(), Meta: map[string]string{"key_id": unknown.ID},
		}
	case errors.Is(err, secrets.ErrNoKey):
		return &fsm.Error{
			Code: fsm.FailedPrecondition, Reason: "SECRETS_KEY_MISSING",
			Message: "the leader cannot encrypt secrets: " + secrets.ErrNoKey.Error(),
		}
	}
	return err
}
