package cluster

import (
	"fmt"
	"log/slog"

	"github.com/holdfast-metal/holdfast/cluster/internal/raftstore"
)

// Verification is the result of Verify.
type Verification struct {
	NodeID, ClusterID string // the cluster id is empty if the peer has never been in one
	Stores            []VerifiedStore
}

// VerifiedStore is the result for one store of a data directory.
type VerifiedStore = raftstore.Verified

// Damaged returns the first store that is damaged, or nil.
func (v *Verification) Damaged() *VerifiedStore {
	for i := range v.Stores {
		if v.Stores[i].Damage != nil {
			return &v.Stores[i]
		}
	}
	return nil
}

// DamageAdvice is the remedy for a damaged store.
const DamageAdvice = raftstore.DamageAdvice

// Verify verifies the checksums and the completeness of everything that Raft has stored in the data
// directory of a stopped peer. It changes nothing, and fails while the peer runs.
func Verify(dataDir string) (*Verification, error) {
	ident, err := existingIdentity(dataDir)
	if err != nil {
		return nil, fmt.Errorf("verify %s: %w", dataDir, err)
	}
	sc := raftstore.Config{Dir: dataDir, ReadOnly: true, Logger: slog.New(slog.DiscardHandler)}
	if err := ident.rec.expectLog(&sc); err != nil {
		return nil, fmt.Errorf("verify %s: %w", dataDir, err)
	}
	stores, err := raftstore.Verify(&sc)
	if err != nil {
		return nil, err
	}
	return &Verification{NodeID: ident.rec.NodeID, ClusterID: ident.rec.ClusterID, Stores: stores}, nil
}
