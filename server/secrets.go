package server

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/secrets"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/internal/edge"
	"github.com/holdfast-metal/holdfast/server/internal/page"
	"github.com/holdfast-metal/holdfast/server/internal/request"
)

// resealBatch is how many secrets one command re-encrypts.
const resealBatch = 64

// secretService implements SecretService (docs/security.md). The leader serves writes and
// encrypts with its own keys.
type secretService struct {
	holdfastv1.UnimplementedSecretServiceServer
	*Server
}

// PutSecret stores a secret, or a new version of it.
func (s *secretService) PutSecret(ctx context.Context, r *holdfastv1.PutSecretRequest) (*holdfastv1.Secret, error) {
	if err := request.Violations(checkSecret(r)); err != nil {
		return nil, err
	}
	if _, ok := s.cfg.Keys.Primary(); !ok {
		return nil, keyMissing(secrets.ErrNoKey)
	}
	return edge.RetryAborted(func() (*holdfastv1.Secret, error) {
		v, err := s.Node.View(ctx)
		if err != nil {
			return nil, err
		}
		old, _ := v.Secret(r.GetName())
		secret := &holdfastv1.Secret{
			Name: r.GetName(), Type: r.GetType(), Version: old.GetSecret().GetVersion() + 1, Pools: r.GetPools(),
		}
		sealed, err := s.cfg.Keys.Put(secret, r.GetValues())
		if err != nil {
			return nil, keyMissing(err)
		}
		c := auth.Command(ctx)
		c.Op = &internalv1.Command_PutSecret{
			PutSecret: &internalv1.PutSecret{Secret: sealed, AllPools: r.GetAllPools()},
		}
		return edge.Apply[*holdfastv1.Secret](ctx, s.Node, c)
	})
}

// GetSecret returns the record of a secret without its values.
func (s *secretService) GetSecret(ctx context.Context, r *holdfastv1.GetSecretRequest) (*holdfastv1.Secret, error) {
	if err := request.Required("name", r.GetName()); err != nil {
		return nil, err
	}
	v, err := s.Node.View(ctx)
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
func (s *secretService) ListSecrets(
	ctx context.Context, r *holdfastv1.ListSecretsRequest,
) (*holdfastv1.ListSecretsResponse, error) {
	p, err := page.Parse(r.GetPageSize(), r.GetPageToken(), "secrets")
	if err != nil {
		return nil, err
	}
	v, err := s.Node.View(ctx)
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
func (s *secretService) DeleteSecret(
	ctx context.Context, r *holdfastv1.DeleteSecretRequest,
) (*holdfastv1.DeleteSecretResponse, error) {
	if err := request.Required("name", r.GetName()); err != nil {
		return nil, err
	}
	c := auth.Command(ctx)
	c.Op = &internalv1.Command_DeleteSecret{
		DeleteSecret: &internalv1.DeleteSecret{Name: r.GetName(), Force: r.GetForce()},
	}
	if _, err := s.Node.Apply(ctx, c); err != nil {
		return nil, err
	}
	return &holdfastv1.DeleteSecretResponse{}, nil
}

// RotateSecrets re-encrypts all secrets and signing keys that are not encrypted with the
// primary key. It works in batches, so after a failure the rest can be done by another
// call. It repeats until a pass finds nothing to do, because secrets may be stored with
// the old key meanwhile.
func (s *secretService) RotateSecrets(
	ctx context.Context, _ *holdfastv1.RotateSecretsRequest,
) (*holdfastv1.RotateSecretsResponse, error) {
	primary, ok := s.cfg.Keys.Primary()
	if !ok {
		return nil, keyMissing(secrets.ErrNoKey)
	}
	resp := &holdfastv1.RotateSecretsResponse{KeyId: primary}
	for range edge.MaxTries {
		done, err := s.reseal(ctx, primary)
		resp.Resealed += done
		if err != nil {
			return nil, err
		}
		if done == 0 {
			s.Log.InfoContext(ctx, "secrets resealed", "key", primary, "resealed", resp.GetResealed())
			return resp, nil
		}
	}
	return nil, &fsm.Error{
		Code: fsm.Aborted, Reason: "SECRETS_CHANGE",
		Message: "rotate secrets: peers keep storing secrets under other keys: " +
			"give all peers the same primary key, then retry",
	}
}

// reseal does one pass over all secrets and signing keys. Those that cannot be decrypted
// are reported at the end, after all others are done.
func (s *secretService) reseal(ctx context.Context, primary string) (done int32, err error) {
	v, err := s.Node.View(ctx)
	if err != nil {
		return 0, err
	}
	batch := &internalv1.ResealSecrets{}
	flush := func() error {
		n := len(batch.GetSecrets()) + len(batch.GetKeys())
		if n == 0 {
			return nil
		}
		c := auth.Command(ctx)
		c.Op = &internalv1.Command_ResealSecrets{ResealSecrets: batch}
		if _, err := s.Node.Apply(ctx, c); err != nil {
			return err
		}
		batch = &internalv1.ResealSecrets{}
		done += int32(n)
		return nil
	}
	var failed []error
	for stored := range v.Secrets("") {
		if stored.GetSealed().GetKeyId() == primary {
			continue
		}
		sealed, err := s.cfg.Keys.Reseal(stored)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		if batch.Secrets = append(batch.Secrets, sealed); len(batch.GetSecrets()) == resealBatch {
			if err := flush(); err != nil {
				return done, err
			}
		}
	}
	for _, key := range v.SigningKeys() {
		if key.GetSealed().GetKeyId() == primary {
			continue
		}
		sealed, err := s.cfg.Keys.ResealKey(key)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		batch.Keys = append(batch.Keys, sealed)
	}
	if err := flush(); err != nil {
		return done, err
	}
	return done, cannotOpen(failed)
}

// cannotOpen returns an error with the first three failures, or nil if there are none.
func cannotOpen(failed []error) error {
	if len(failed) == 0 {
		return nil
	}
	more := ""
	if n := len(failed) - 3; n > 0 {
		more, failed = fmt.Sprintf("; and %d more", n), failed[:3]
	}
	causes := strings.ReplaceAll(errors.Join(failed...).Error(), "\n", "; ")
	return &fsm.Error{
		Code: fsm.FailedPrecondition, Reason: "SECRETS_KEY_MISSING",
		Message: "rotate secrets: some could not be re-encrypted, all others were: " + causes + more,
	}
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
