package cluster_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-metal/holdfast/cluster"
	"github.com/holdfast-metal/holdfast/cluster/clustertest"
)

// Verify refuses the directory of a running peer with the message of Recover. It finds no damage
// after the peer has stopped or died.
func TestVerify(t *testing.T) {
	for _, store := range []string{"", cluster.LogStoreBolt} {
		t.Run(store, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			c := clustertest.Start(t, clustertest.Options{Peers: 1, Configure: func(_ int, c *cluster.Config) {
				c.DataDir, c.LogStore = dir, store
			}})
			p := c.Leader()
			for i := range 20 {
				if err := register(t.Context(), p, fmt.Sprintf("m%d", i)); err != nil {
					t.Fatal(err)
				}
			}
			verify := func(dir string) {
				t.Helper()
				v, err := cluster.Verify(dir)
				if err != nil {
					t.Fatal(err)
				}
				if d := v.Damaged(); d != nil {
					t.Errorf("damage: got %+v, want none", d)
				}
				if v.PeerID != p.ID || v.ClusterID == "" || len(v.Stores) != 3 {
					t.Errorf("verify: got %+v, want three stores of %s", v, p.ID)
				}
			}
			verify(copyDir(t, dir)) // as after a crash
			_, want := cluster.Recover(dir, 0, true, clustertest.Logger())
			if _, err := cluster.Verify(dir); err == nil || want == nil || err.Error() != want.Error() {
				t.Errorf("verify a running peer: got %v, want %v", err, want)
			}
			if err := c.Stop(p); err != nil {
				t.Fatal(err)
			}
			verify(dir)
		})
	}
	if _, err := cluster.Verify(t.TempDir()); err == nil || !strings.Contains(err.Error(), "not the data directory") {
		t.Errorf("verify an empty directory: got %v", err)
	}
}
