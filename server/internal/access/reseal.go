package access

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/internal/secrets"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/auth"
	"github.com/holdfast-metal/holdfast/server/internal/edge"
)

// resealBytes bounds the bytes of secrets that one command re-encrypts: half of a log entry, since
// the last one may be large.
const resealBytes = 256 << 10

// RotateSecrets re-encrypts all secrets and signing keys that are not encrypted with the
// primary key. It works in batches, so after a failure the rest can be done by another
// call. It repeats until a pass finds nothing to do, because secrets may be stored with
// the old key meanwhile.
func (s *Secrets) RotateSecrets(
	ctx context.Context, _ *holdfastv1.RotateSecretsRequest,
) (*holdfastv1.RotateSecretsResponse, error) {
	primary, ok := s.keys.Primary()
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
func (s *Secrets) reseal(ctx context.Context, primary string) (done int32, err error) {
	v, err := s.Cluster.View(ctx)
	if err != nil {
		return 0, err
	}
	batch, size := &internalv1.ResealSecrets{}, 0
	flush := func() error {
		n := len(batch.GetSecrets()) + len(batch.GetKeys())
		if n == 0 {
			return nil
		}
		c := auth.Command(ctx)
		c.Op = &internalv1.Command_ResealSecrets{ResealSecrets: batch}
		if _, err := s.Cluster.Apply(ctx, c); err != nil {
			return err
		}
		batch, size = &internalv1.ResealSecrets{}, 0
		done += int32(n)
		return nil
	}
	var failed []error
	for stored := range v.Secrets("") {
		if stored.GetSealed().GetKeyId() == primary {
			continue
		}
		sealed, err := s.keys.Reseal(stored)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		batch.Secrets, size = append(batch.Secrets, sealed), size+proto.Size(sealed)
		if len(batch.GetSecrets()) == fsm.MaxResealed || size >= resealBytes {
			if err := flush(); err != nil {
				return done, err
			}
		}
	}
	for _, key := range v.SigningKeys() {
		if key.GetSealed().GetKeyId() == primary {
			continue
		}
		sealed, err := s.keys.ResealKey(key)
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
