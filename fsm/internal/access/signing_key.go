package access

import (
	"cmp"
	"slices"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	"github.com/holdfast-metal/holdfast/fsm/internal/limits"
	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// PutSigningKeys replaces the keys of the built-in issuer, unless they have changed
// meanwhile.
func PutSigningKeys(t *core.Tx, c *internalv1.PutSigningKeys) *refusal.Error {
	if n := len(c.GetKeys()); n == 0 || n > limits.SigningKeys {
		return refusal.InvalidField("keys", "are %d, 1 to %d are allowed", n, limits.SigningKeys)
	}
	seen := map[string]bool{}
	for _, k := range c.GetKeys() {
		if !lex.ValidName(k.GetKeyId(), 64) || seen[k.GetKeyId()] {
			return refusal.InvalidField("keys",
				"key id %q is duplicate, or is not 1 to 64 letters, digits, '.', '_', '-' or ':'",
				lex.Ident(k.GetKeyId()))
		}
		seen[k.GetKeyId()] = true
		if len(k.GetSealed().GetCiphertext()) == 0 || len(k.GetPublicJwk()) == 0 || !k.GetCreatedAt().IsValid() {
			return refusal.InvalidField("keys", "key %q has no sealed private key, no public key or no time",
				k.GetKeyId())
		}
	}
	newest := ""
	if old := sortedKeys(t.State); len(old) > 0 {
		newest = old[len(old)-1].GetKeyId()
	}
	if c.GetAfterKeyId() != newest {
		return refusal.New(refusal.Aborted, refusal.ReasonSigningKeyMoved,
			"keys were made after key %q, but %q is the newest",
			lex.Ident(c.GetAfterKeyId()), newest)
	}
	for _, k := range sortedKeys(t.State) {
		t.SigningKeys.Delete(k.GetKeyId())
	}
	for _, k := range c.GetKeys() {
		t.SigningKeys.Put(k)
	}
	return nil
}

func sortedKeys(s *core.State) []*internalv1.SigningKey {
	return slices.SortedStableFunc(s.SigningKeys.Ascend("", ""), func(a, b *internalv1.SigningKey) int {
		return cmp.Or(a.GetCreatedAt().AsTime().Compare(b.GetCreatedAt().AsTime()),
			cmp.Compare(a.GetKeyId(), b.GetKeyId()))
	})
}

// SigningKeys returns the keys of the built-in issuer, newest last.
func (v *View) SigningKeys() []*internalv1.SigningKey { return sortedKeys(v.s) }
