package issuer

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/go-jose/go-jose/v4"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/internal/secrets"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// newKey returns a key that is used for signing from the given time. Its id is its
// thumbprint (RFC 7638).
func newKey(keys *secrets.Keyring, now, from time.Time) (*internalv1.SigningKey, error) {
	priv, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("create signing key: %w", err)
	}
	jwk := jose.JSONWebKey{Key: priv.Public(), Algorithm: string(jose.ES256), Use: "sig"}
	sum, err := jwk.Thumbprint(crypto.SHA256)
	if err != nil {
		return nil, fmt.Errorf("create signing key: %w", err)
	}
	jwk.KeyID = base64.RawURLEncoding.EncodeToString(sum)
	public, err := json.Marshal(jwk)
	if err != nil {
		return nil, fmt.Errorf("create signing key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(priv)
	if err != nil {
		return nil, fmt.Errorf("create signing key: %w", err)
	}
	defer clear(der)
	sealed, err := keys.Seal(secrets.SigningKeys, jwk.KeyID, 0, der)
	if err != nil {
		return nil, err
	}
	return &internalv1.SigningKey{
		KeyId:     jwk.KeyID,
		Sealed:    sealed,
		PublicJwk: public,
		CreatedAt: timestamppb.New(now),
		SignsFrom: timestamppb.New(from),
	}, nil
}

// openSigner decrypts a key and returns its signer.
func openSigner(keys *secrets.Keyring, k *internalv1.SigningKey) (jose.Signer, error) {
	der, err := keys.Open(secrets.SigningKeys, k.GetKeyId(), 0, k.GetSealed())
	if err != nil {
		return nil, err
	}
	defer clear(der)
	parsed, err := x509.ParsePKCS8PrivateKey(der)
	priv, ok := parsed.(*ecdsa.PrivateKey)
	if err != nil || !ok {
		return nil, errors.New("open signing key " + k.GetKeyId() + ": the sealed value is not an ECDSA key")
	}
	signer, err := jose.NewSigner(
		jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: priv, KeyID: k.GetKeyId()}},
		(&jose.SignerOptions{}).WithType("at+jwt")) // RFC 9068 §2.1
	if err != nil {
		return nil, fmt.Errorf("open signing key %s: %w", k.GetKeyId(), err)
	}
	return signer, nil
}
