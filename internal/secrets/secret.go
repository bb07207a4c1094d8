package secrets

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Put seals the values of a secret under its current version. The record contains the names
// of the values.
func (k *Keyring) Put(s *holdfastv1.Secret, values map[string]string) (*internalv1.StoredSecret, error) {
	plain, err := proto.MarshalOptions{Deterministic: true}.Marshal(&internalv1.SecretValues{Values: values})
	if err != nil {
		return nil, fmt.Errorf("seal secret %q: encode its values: %w", s.GetName(), err)
	}
	defer clear(plain)
	sealed, err := k.Seal(Secrets, s.GetName(), s.GetVersion(), plain)
	if err != nil {
		return nil, err
	}
	out := proto.CloneOf(s)
	out.Keys, out.KeyId = slices.Sorted(maps.Keys(values)), sealed.GetKeyId()
	return &internalv1.StoredSecret{Secret: out, Sealed: sealed}, nil
}

// Get decrypts the values of a secret.
func (k *Keyring) Get(s *internalv1.StoredSecret) (map[string]Value, error) {
	name := s.GetSecret().GetName()
	plain, err := k.Open(Secrets, name, s.GetSecret().GetVersion(), s.GetSealed())
	if err != nil {
		return nil, err
	}
	defer clear(plain)
	var sv internalv1.SecretValues
	if proto.Unmarshal(plain, &sv) != nil {
		return nil, fmt.Errorf("open secret %q: version %d does not contain values", name, s.GetSecret().GetVersion())
	}
	values := make(map[string]Value, len(sv.GetValues()))
	for key, text := range sv.GetValues() {
		values[key] = NewValue(text)
	}
	return values, nil
}

// Reseal encrypts a secret again under the primary key, with the same version.
func (k *Keyring) Reseal(s *internalv1.StoredSecret) (*internalv1.StoredSecret, error) {
	name, version := s.GetSecret().GetName(), s.GetSecret().GetVersion()
	plain, err := k.Open(Secrets, name, version, s.GetSealed())
	if err != nil {
		return nil, err
	}
	defer clear(plain)
	out := proto.CloneOf(s)
	if out.Sealed, err = k.Seal(Secrets, name, version, plain); err != nil {
		return nil, err
	}
	out.Secret.KeyId = out.GetSealed().GetKeyId()
	return out, nil
}

// ResealKey encrypts a signing key of the issuer again under the primary key.
func (k *Keyring) ResealKey(s *internalv1.SigningKey) (*internalv1.SigningKey, error) {
	plain, err := k.Open(SigningKeys, s.GetKeyId(), 0, s.GetSealed())
	if err != nil {
		return nil, err
	}
	defer clear(plain)
	out := proto.CloneOf(s)
	out.Sealed, err = k.Seal(SigningKeys, s.GetKeyId(), 0, plain)
	return out, err
}

// State is this peer's copy of the replicated state (*fsm.FSM).
type State interface {
	View() *fsm.View
}

// Secret is a decrypted secret, for the code that uses its values.
type Secret struct {
	Name    string
	Type    string // bmc, ssh, join, token, opaque
	Version uint64 // changes whenever the values change
	Values  map[string]Value
}

// Resolver decrypts secrets that machines reference by name (bmc_credentials_ref,
// ssh_credentials_ref). It reads this peer's own state, without a round trip. Only the
// leader's state is current, so only leader tasks should use it.
type Resolver struct {
	state State
	keys  *Keyring
}

// NewResolver returns a Resolver.
func NewResolver(state State, keys *Keyring) *Resolver { return &Resolver{state, keys} }

// Resolve decrypts a secret. The error is an *fsm.Error of code NotFound if there is no
// such secret, and an *UnknownKeyError if this peer does not have its key. Errors contain
// no values.
func (r *Resolver) Resolve(ctx context.Context, name string) (Secret, error) {
	if err := ctx.Err(); err != nil {
		return Secret{}, fmt.Errorf("resolve secret %q: %w", name, err)
	}
	s, ok := r.state.View().Secret(name)
	if !ok {
		return Secret{}, &fsm.Error{
			Code:    fsm.NotFound,
			Reason:  "SECRET_NOT_FOUND",
			Meta:    map[string]string{"secret": name},
			Message: fmt.Sprintf("secret %q not found: make it with: holdfast secret put %s", name, name),
		}
	}
	values, err := r.keys.Get(s)
	if err != nil {
		return Secret{}, err
	}
	meta := s.GetSecret()
	return Secret{Name: name, Type: meta.GetType(), Version: meta.GetVersion(), Values: values}, nil
}
