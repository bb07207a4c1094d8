package fsm

import (
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

func secretSchema() *schema[internalv1.StoredSecret, *internalv1.StoredSecret] {
	return &schema[internalv1.StoredSecret, *internalv1.StoredSecret]{
		kind: internalv1.SnapshotRecord_SECRETS,
		key:  func(s *internalv1.StoredSecret) string { return s.GetSecret().GetName() },
	}
}

func (t *tx) putSecret(_ *internalv1.PutSecret) (*holdfastv1.Secret, *Error) { return nil, unbuilt() }

func (t *tx) deleteSecret(_ *internalv1.DeleteSecret) *Error { return unbuilt() }

func (t *tx) resealSecrets(_ *internalv1.ResealSecrets) *Error { return unbuilt() }
