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
)

// resealBatch is how many secrets are sealed again in one command.
const resealBatch = 64

// secretService is SecretService (docs/security.md). Writes are served by the leader: it seals with
// its own keys.
type secretService struct {
	holdfastv1.UnimplementedSecretServiceServer
	*Server
}

// PutSecret stores a secret, or a new version of it.
func (s *secretService) PutSecret(ctx context.Context, r *holdfastv1.PutSecretRequest) (*holdfastv1.Secret, error) {
	if err := violations(checkSecret(r)); err != nil {
		return nil, err
	}
	if _, ok := s.cfg.Keys.Primary(); !ok {
		return nil, keyMissing(secrets.ErrNoKey)
	}
	return again(func() (*holdfastv1.Secret, error) {
		v, err := s.node.View(ctx)
		if err != nil {
			return nil, err
		}
		old, _ := v.Secret(r.GetName())
		sealed, err := s.cfg.Keys.Put(&holdfastv1.Secret{Name: r.GetName(), Type: r.GetType(), Version: old.GetSecret().GetVersion() + 1, Pools: r.GetPools()}, r.GetValues())
		if err != nil {
			return nil, keyMissing(err)
		}
		c := s.command(ctx)
		c.Op = &internalv1.Command_PutSecret{PutSecret: &internalv1.PutSecret{Secret: sealed, AllPools: r.GetAllPools()}}
		return apply[*holdfastv1.Secret](ctx, s.node, c)
	})
}

// GetSecret reports what is recorded of a secret, but for its value.
func (s *secretService) GetSecret(ctx context.Context, r *holdfastv1.GetSecretRequest) (*holdfastv1.Secret, error) {
	if err := required("name", r.GetName()); err != nil {
		return nil, err
	}
	v, err := s.node.View(ctx)
	if err != nil {
		return nil, err
	}
	stored, ok := v.Secret(r.GetName())
	if !ok {
		return nil, notFound("SECRET_NOT_FOUND", "secret", r.GetName())
	}
	return stored.GetSecret(), nil
}

// ListSecrets lists secrets by name, without their values.
func (s *secretService) ListSecrets(
	ctx context.Context, r *holdfastv1.ListSecretsRequest,
) (*holdfastv1.ListSecretsResponse, error) {
	p, err := newPage(r.GetPageSize(), r.GetPageToken(), "secrets")
	if err != nil {
		return nil, err
	}
	v, err := s.node.View(ctx)
	if err != nil {
		return nil, err
	}
	rows := func(yield func(string, *holdfastv1.Secret) bool) {
		for stored := range v.Secrets(p.after) {
			if !yield(stored.GetSecret().GetName(), stored.GetSecret()) {
				return
			}
		}
	}
	resp := &holdfastv1.ListSecretsResponse{}
	resp.Secrets, resp.NextPageToken, err = collect(ctx, p, rows, func(*holdfastv1.Secret) bool { return true })
	return resp, err
}

// DeleteSecret deletes a secret that no machine refers to, or with force any.
func (s *secretService) DeleteSecret(
	ctx context.Context, r *holdfastv1.DeleteSecretRequest,
) (*holdfastv1.DeleteSecretResponse, error) {
	if err := required("name", r.GetName()); err != nil {
		return nil, err
	}
	c := s.command(ctx)
	c.Op = &internalv1.Command_DeleteSecret{DeleteSecret: &internalv1.DeleteSecret{Name: r.GetName(), Force: r.GetForce()}}
	if _, err := s.node.Apply(ctx, c); err != nil {
		return nil, err
	}
	return &holdfastv1.DeleteSecretResponse{}, nil
}

// RotateSecrets seals again what is not sealed under the primary key, in batches: what one that
// failed has done need not be done again. It looks again at the end, for what was stored under the
// old key meanwhile.
func (s *secretService) RotateSecrets(
	ctx context.Context, _ *holdfastv1.RotateSecretsRequest,
) (*holdfastv1.RotateSecretsResponse, error) {
	primary, ok := s.cfg.Keys.Primary()
	if !ok {
		return nil, keyMissing(secrets.ErrNoKey)
	}
	resp := &holdfastv1.RotateSecretsResponse{KeyId: primary}
	for range maxTries {
		done, err := s.reseal(ctx, primary)
		resp.Resealed += done
		if err != nil {
			return nil, err
		}
		if done == 0 {
			s.log.InfoContext(ctx, "secrets resealed", "key", primary, "resealed", resp.GetResealed())
			return resp, nil
		}
	}
	return nil, &fsm.Error{Code: fsm.Aborted, Reason: "SECRETS_CHANGE", Message: "secrets are stored under other keys faster than they can be sealed again: give all peers the same primary key, then try again"}
}

// reseal goes over everything once. What cannot be opened is left for last: the rest is done.
func (s *secretService) reseal(ctx context.Context, primary string) (done int32, err error) {
	v, err := s.node.View(ctx)
	if err != nil {
		return 0, err
	}
	batch := &internalv1.ResealSecrets{}
	flush := func() error {
		n := len(batch.GetSecrets()) + len(batch.GetKeys())
		if n == 0 {
			return nil
		}
		c := s.command(ctx)
		c.Op = &internalv1.Command_ResealSecrets{ResealSecrets: batch}
		if _, err := s.node.Apply(ctx, c); err != nil {
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

// cannotOpen reports what could not be sealed again, the first three by name.
func cannotOpen(failed []error) error {
	if len(failed) == 0 {
		return nil
	}
	more := ""
	if n := len(failed) - 3; n > 0 {
		more, failed = fmt.Sprintf("; and %d more", n), failed[:3]
	}
	words := strings.ReplaceAll(errors.Join(failed...).Error(), "\n", "; ")
	return &fsm.Error{Code: fsm.FailedPrecondition, Reason: "SECRETS_KEY_MISSING", Message: "not all could be sealed again, all others were: " + words + more}
}

// keyMissing words that the leader cannot seal or open.
func keyMissing(err error) error {
	unknown := new(secrets.UnknownKeyError)
	switch {
	case errors.As(err, &unknown):
		return &fsm.Error{Code: fsm.FailedPrecondition, Reason: "SECRETS_KEY_MISSING", Message: "the leader cannot do that: " + err.Error(), Meta: map[string]string{"key_id": unknown.ID}}
	case errors.Is(err, secrets.ErrNoKey):
		return &fsm.Error{Code: fsm.FailedPrecondition, Reason: "SECRETS_KEY_MISSING", Message: "the leader cannot seal secrets: " + secrets.ErrNoKey.Error()}
	}
	return err
}
