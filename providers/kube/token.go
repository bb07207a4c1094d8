package kube

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"math/big"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-metal/holdfast/providers"
)

// TokenTTL is the validity of a bootstrap token that is not revoked.
const TokenTTL = 15 * time.Minute

const (
	system          = "kube-system"
	tokenType       = corev1.SecretType("bootstrap.kubernetes.io/token")
	attemptNote     = "holdfast.dev/attempt" // annotation with the attempt of a token
	tokenDigits     = "abcdefghijklmnopqrstuvwxyz0123456789"
	tokenCandidates = 4 // possible ids of an attempt's token, because the first may be taken
)

// tokenID returns a candidate for the id of an attempt's token. It is deterministic, so that any
// leader finds the token.
func tokenID(attempt string, candidate int) string {
	h := sha256.Sum256(fmt.Appendf(nil, "holdfast bootstrap token %d of %s", candidate, attempt))
	n, base := new(big.Int).SetBytes(h[:]), big.NewInt(int64(len(tokenDigits)))
	id, digit := make([]byte, 6), new(big.Int)
	for i := range id {
		n.DivMod(n, base, digit)
		id[i] = tokenDigits[digit.Int64()]
	}
	return string(id)
}

// newTokenSecret returns the secret half of a token.
func newTokenSecret() (string, error) {
	b := make([]byte, 16)
	for i := range b {
		n, err := rand.Int(rand.Reader, big.NewInt(int64(len(tokenDigits))))
		if err != nil {
			return "", fmt.Errorf("create bootstrap token: %w", err)
		}
		b[i] = tokenDigits[n.Int64()]
	}
	return string(b), nil
}

// mint returns the bootstrap token of an attempt. It creates one if there is none, or none that is
// valid for long enough.
func (a *api) mint(ctx context.Context, attempt string) (string, error) {
	for c := range tokenCandidates {
		id := tokenID(attempt, c)
		s, err := a.tokenSecret(ctx, id)
		if err != nil {
			return "", err
		}
		if s != nil && s.Annotations[attemptNote] != attempt {
			continue // taken by another attempt
		}
		if s != nil {
			until, err := time.Parse(time.RFC3339, string(s.Data["expiration"]))
			if secret := string(s.Data["token-secret"]); err == nil && secret != "" && time.Until(until) > TokenTTL/2 {
				return id + "." + secret, nil
			}
			if err := a.deleteToken(ctx, s); err != nil {
				return "", err
			}
		}
		secret, err := newTokenSecret()
		if err != nil {
			return "", err
		}
		err = a.client.Post().Namespace(system).Resource("secrets").
			MaxRetries(0).Body(newToken(attempt, id, secret)).Do(ctx).Error()
		if err != nil {
			return "", err // if it exists by now, the next try finds it
		}
		return id + "." + secret, nil
	}
	return "", providers.Errorf(providers.Failed, "create bootstrap token", "all ids are taken: try again")
}

// newToken returns a token secret like kubeadm's, for one node.
func newToken(attempt, id, secret string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name:        "bootstrap-token-" + id,
			Namespace:   system,
			Annotations: map[string]string{attemptNote: attempt},
		},
		Type: tokenType,
		StringData: map[string]string{
			"description": "Holdfast joins a machine with it", "token-id": id, "token-secret": secret,
			"expiration":                     time.Now().Add(TokenTTL).UTC().Format(time.RFC3339),
			"usage-bootstrap-authentication": "true", "usage-bootstrap-signing": "true",
			"auth-extra-groups": "system:bootstrappers:kubeadm:default-node-token",
		},
	}
}

// revoke deletes the token of an attempt, if there is one. It reads all candidates: the one that
// was taken when the token was created may be free by now. Reading them can take a slow API longer
// than an effect may wait, so the deletion is confirmed separately.
func (a *api) revoke(ctx context.Context, attempt string) error {
	for c := range tokenCandidates {
		s, err := a.tokenSecret(providers.Unhurried(ctx), tokenID(attempt, c))
		if err != nil {
			return err
		}
		if s == nil || s.Annotations[attemptNote] != attempt {
			continue
		}
		sends, err := providers.Confirmed(ctx, "revoke a bootstrap token")
		if err == nil {
			err = a.deleteToken(sends, s)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// tokenSecret reads a token. It returns nil if there is none.
func (a *api) tokenSecret(ctx context.Context, id string) (*corev1.Secret, error) {
	s := &corev1.Secret{}
	err := a.client.Get().Namespace(system).Resource("secrets").Name("bootstrap-token-" + id).Do(ctx).Into(s)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return s, err
}

func (a *api) deleteToken(ctx context.Context, s *corev1.Secret) error {
	err := a.client.Delete().Namespace(system).Resource("secrets").Name(s.Name).MaxRetries(0).
		Body(&metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(s.UID))}).Do(ctx).Error()
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
