package fsm

import (
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

func signingKeySchema() *schema[internalv1.SigningKey, *internalv1.SigningKey] {
	return &schema[internalv1.SigningKey, *internalv1.SigningKey]{
		kind: internalv1.SnapshotRecord_SIGNING_KEYS,
		key:  (*internalv1.SigningKey).GetKeyId,
	}
}

func (t *tx) putSigningKeys(_ *internalv1.PutSigningKeys) *Error { return unbuilt() }
