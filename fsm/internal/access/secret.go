package access

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	"github.com/holdfast-metal/holdfast/fsm/internal/limits"
	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	"github.com/holdfast-metal/holdfast/fsm/internal/table"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Limits of a secret.
const (
	maxSecretName = 128
	maxSealed     = 128 << 10 // bytes of ciphertext: certificates and kubeconfigs fit
	shownUses     = 10        // machines that Secret.used_by lists
)

// secretTypes returns the types of secrets.
func secretTypes() []string { return []string{"bmc", "ssh", "join", "token", "opaque"} }

func secretNotFound(name string) *refusal.Error {
	return refusal.New(refusal.NotFound, "SECRET_NOT_FOUND", "secret %q not found", lex.Ident(name)).
		With("secret", lex.Ident(name))
}

// ValidSecretName reports whether a name may be that of a secret.
func ValidSecretName(name string) bool {
	return lex.ValidPath(name, maxSecretName)
}

// ValidateSecret returns the violations of a secret's public part, except for its version.
func ValidateSecret(s *holdfastv1.Secret) []refusal.FieldViolation {
	var bad refusal.Violations
	if !ValidSecretName(s.GetName()) {
		// The message omits the name, because it may be a secret value.
		bad.Add("name", "is not 1 to %d letters, digits, '.', '_', '-', ':' or '/'", maxSecretName)
	}
	if !slices.Contains(secretTypes(), s.GetType()) {
		bad.Add("type", "is not one of %s", strings.Join(secretTypes(), ", "))
	}
	if n := len(s.GetKeys()); n == 0 || n > limits.SecretKeys {
		bad.Add("values", "are %d, 1 to %d are allowed", n, limits.SecretKeys)
	}
	for _, k := range s.GetKeys() {
		if !lex.ValidName(k, 64) {
			bad.Add("values", "have a name that is not 1 to 64 letters, digits, '.', '_', '-' or ':'")
		}
	}
	if n := len(s.GetPools()); n > limits.Pools {
		bad.Add("pools", "are %d, at most %d are allowed", n, limits.Pools)
	}
	for i, p := range s.GetPools() {
		if !lex.Printable(p, core.MaxPoolName) {
			bad.Add(fmt.Sprintf("pools[%d]", i), "is not 1 to %d visible characters", core.MaxPoolName)
		}
	}
	return bad.Fields
}

// PutSecret stores a version of a secret. Its ciphertext is bound to that version, so it must
// be the next one.
func PutSecret(t *core.Tx, c *internalv1.PutSecret) (*holdfastv1.Secret, *refusal.Error) {
	in := proto.CloneOf(c.GetSecret())
	s := in.GetSecret()
	if err := refusal.Invalid(ValidateSecret(s)); err != nil {
		return nil, err
	}
	if n := len(in.GetSealed().GetCiphertext()); in.GetSealed().GetKeyId() == "" || n == 0 || n > maxSealed {
		return nil, refusal.InvalidField("sealed", "has %d bytes under key %q: want 1 to %d, and the key's id",
			n, in.GetSealed().GetKeyId(), maxSealed)
	}
	old, exists := t.Secrets.Get(s.GetName())
	if v := old.GetSecret().GetVersion() + 1; s.GetVersion() != v {
		return nil, refusal.New(refusal.Aborted, refusal.ReasonSecretVersion,
			"secret %q was sealed as version %d, but version %d is next",
			s.GetName(), s.GetVersion(), v)
	}
	if exists && old.GetSecret().GetType() != s.GetType() {
		return nil, refusal.New(refusal.FailedPrecondition, "SECRET_TYPE",
			"secret %q has type %s, not %s: delete it first, or use another name",
			s.GetName(), old.GetSecret().GetType(), s.GetType())
	}
	if c.GetAllPools() && len(s.GetPools()) > 0 {
		return nil, refusal.InvalidField("pools", "must be empty for a secret of all pools")
	}
	if len(s.GetPools()) == 0 && !c.GetAllPools() {
		s.Pools = slices.Clone(old.GetSecret().GetPools()) // another password does not change the scope
	}
	slices.Sort(s.Pools)
	s.Pools = slices.Compact(s.Pools)
	if err := checkNarrowed(t, s, old.GetSecret().GetPools(), exists); err != nil {
		return nil, err
	}
	s.CreatedAt, s.UpdatedAt, s.UpdatedBy = t.Now, t.Now, lex.Clip(t.Command.GetPrincipal(), core.MaxPrincipal)
	if exists {
		s.CreatedAt = old.GetSecret().GetCreatedAt()
	}
	s.KeyId, s.UsedBy, s.Uses = in.GetSealed().GetKeyId(), nil, 0
	slices.Sort(s.Keys)
	t.Secrets.Put(in)
	return withUses(t.State, s), nil
}

// DeleteSecret deletes a secret that no machine or webhook refers to, or with force any.
func DeleteSecret(t *core.Tx, c *internalv1.DeleteSecret) *refusal.Error {
	s, ok := t.Secrets.Get(c.GetName())
	if !ok {
		return secretNotFound(c.GetName())
	}
	if used := withUses(t.State, s.GetSecret()); used.GetUses() > 0 && !c.GetForce() {
		return refusal.New(refusal.FailedPrecondition, refusal.ReasonSecretInUse,
			"secret %q is in use by %s, such as %s: let them refer to another one, or delete it with force",
			c.GetName(), lex.Number(used.GetUses(), "machine"), strings.Join(used.GetUsedBy(), ", ")).With("secret", c.GetName())
	}
	for w := range t.Webhooks.Ascend("", "") {
		if w.GetSecretRef() == c.GetName() && !c.GetForce() {
			return refusal.New(refusal.FailedPrecondition, refusal.ReasonSecretInUse,
				"secret %q signs the messages of webhook %q: let it refer to another one, or delete it with force",
				c.GetName(), w.GetName()).
				With("secret", c.GetName()).With("webhook", w.GetName())
		}
	}
	t.Secrets.Delete(c.GetName())
	return nil
}

// ResealSecrets replaces ciphertexts with ones under another key. A secret or key that has
// changed meanwhile is skipped, because it is already sealed under the current key.
func ResealSecrets(t *core.Tx, c *internalv1.ResealSecrets) *refusal.Error {
	for _, in := range c.GetSecrets() {
		s, ok := t.Secrets.Edit(in.GetSecret().GetName())
		// A secret that was deleted and created again counts from 1 again, so compare the
		// creation time too.
		same := ok && s.GetSecret().GetVersion() == in.GetSecret().GetVersion() &&
			proto.Equal(s.GetSecret().GetCreatedAt(), in.GetSecret().GetCreatedAt())
		if same && in.GetSealed().GetKeyId() != "" {
			s.Sealed, s.Secret.KeyId = in.GetSealed(), in.GetSealed().GetKeyId()
			t.Secrets.Put(s)
		}
	}
	for _, in := range c.GetKeys() {
		if k, ok := t.SigningKeys.Edit(in.GetKeyId()); ok && in.GetSealed().GetKeyId() != "" {
			k.Sealed = in.GetSealed()
			t.SigningKeys.Put(k)
		}
	}
	return nil
}

// withUses returns a copy of a secret with the fields that are computed on read.
func withUses(s *core.State, sec *holdfastv1.Secret) *holdfastv1.Secret {
	sec = proto.CloneOf(sec)
	key := schema.SecretKey(sec.GetName())
	sec.Uses = int32(s.Machines.Count(schema.MachinesBySecret, key+"\x00") -
		s.Machines.Count(schema.MachinesBySecret, key))
	sec.UsedBy = nil
	for _, m := range s.Machines.Scan(schema.MachinesBySecret, key, "") {
		if len(sec.GetUsedBy()) == shownUses {
			break
		}
		sec.UsedBy = append(sec.UsedBy, m.GetMachineId())
	}
	return sec
}

// Secret returns a sealed secret.
func (v *View) Secret(name string) (*internalv1.StoredSecret, bool) {
	s, ok := v.s.Secrets.Get(name)
	if !ok {
		return nil, false
	}
	return wholeSecret(v.s, s), true
}

func wholeSecret(s *core.State, stored *internalv1.StoredSecret) *internalv1.StoredSecret {
	return &internalv1.StoredSecret{Secret: withUses(s, stored.GetSecret()), Sealed: stored.GetSealed()}
}

// Secrets returns the sealed secrets with a name above after, by name.
func (v *View) Secrets(after string) iter.Seq[*internalv1.StoredSecret] {
	return table.Map(v.s.Secrets.Ascend("", after), func(s *internalv1.StoredSecret) *internalv1.StoredSecret {
		return wholeSecret(v.s, s)
	})
}

// SealedUnder returns the ids of the keys that seal secrets and signing keys, sorted.
func SealedUnder(s *core.State) []string {
	var ids []string
	for r := range s.Secrets.Ascend("", "") {
		ids = append(ids, r.GetSealed().GetKeyId())
	}
	for k := range s.SigningKeys.Ascend("", "") {
		ids = append(ids, k.GetSealed().GetKeyId())
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// SealedUnder returns the ids of the keys that seal secrets and the issuer's signing keys,
// sorted.
func (v *View) SealedUnder() []string { return SealedUnder(v.s) }
